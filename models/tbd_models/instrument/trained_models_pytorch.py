"""Find the modules of a running PyTorch program that optimizers train."""

from __future__ import annotations

import gc
from collections.abc import Iterable

import torch
from torch import nn


def models(optimizers: list[torch.optim.Optimizer]) -> list[nn.Module]:
    """Return the outermost modules that hold parameters of some optimizers."""
    trained = parameters(optimizers)
    # By the type: isinstance would run code of objects that imitate a class.
    modules = [
        module
        for module in gc.get_objects()
        if issubclass(type(module), nn.Module) and "_parameters" in module.__dict__
    ]
    holding = [module for module in modules if any(id(p) in trained for p in module.parameters())]
    inner = {id(child) for module in holding for child in module.modules() if child is not module}
    return [module for module in holding if id(module) not in inner]


def parameters(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    """Return the identities of the parameters that optimizers update."""
    return {
        id(parameter)
        for optimizer in optimizers
        for group in getattr(optimizer, "param_groups", ())  # none before its __init__
        for parameter in group["params"]
    }


def joined(models: list[nn.Module]) -> nn.Module:
    """Return a module that holds several; never called, it gives their layers distinct names."""
    named: dict[str, nn.Module] = {}
    for model in models:
        name = type(model).__name__
        alike = sum(known.rstrip("0123456789") == name for known in named)
        named[f"{name}{alike + 1}" if alike else name] = model
    return nn.ModuleDict(named)


def optimizers_found() -> list[torch.optim.Optimizer]:
    """Return the optimizers that exist, one for each set of parameters."""
    # Objects that wrap an optimizer, as those of Accelerate, have its parameters.
    found: dict[frozenset[int], torch.optim.Optimizer] = {}
    for one in gc.get_objects():
        if issubclass(type(one), torch.optim.Optimizer):
            key = frozenset(parameters([one]))
            if key and (key not in found or type(one).__module__.startswith("torch.optim")):
                found[key] = one
    return list(found.values())
