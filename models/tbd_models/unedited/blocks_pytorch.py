"""Find the blocks of a model that checkpointing can recompute, and their work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import flop_registry

from tbd_models.instrument.memory_storages_pytorch import FORWARD, Place, Storages


@dataclass(slots=True)
class _Call:
    backward_passes: int  # before it
    inputs: list[int]  # numbers of allocations
    outputs: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Block:
    flop: int = 0  # of the forward passes of the first iteration
    calls: list[_Call] = field(default_factory=list)

    @property
    def is_repeated(self) -> bool:
        """True if one backward pass follows several calls, as of shared weights."""
        passes = [call.backward_passes for call in self.calls]
        return len(set(passes)) < len(passes)


class Blocks:
    """The blocks of a model, as users of checkpointing choose them."""

    def __init__(self, model: nn.Module, place: Place) -> None:
        self._place = place
        self._modules = dict(_blocks(model))
        self._found = {name: _Block() for name in self._modules}
        self.storages: Storages | None = None
        for name, module in self._modules.items():
            module.register_forward_pre_hook(self._begin(name), with_kwargs=True)
            module.register_forward_hook(self._end(name))

    def checkpoint(self, names: Sequence[str]) -> None:
        """Let blocks be computed again in the backward pass."""
        for name in names:
            module = self._modules[name]
            module.forward = _checkpointed(module, module.forward)

    def note_operation(self, function: Any, args: Any, kwargs: Any, results: Any) -> None:
        """Count the FLOP of an operation for the block that runs it."""
        if self._place.iteration or self._place.phase != FORWARD:
            return
        count = flop_registry.get(function._overloadpacket)
        if count is None:
            return
        for name in self._place.layers:
            if name in self._found:
                self._found[name].flop += count(*args, **kwargs, out_val=results)

    def report(self) -> list[dict[str, Any]]:
        """Return name, FLOP and calls of the blocks that can be checkpointed."""
        return [
            {"name": name, "flop": one.flop, "calls": [[c.inputs, c.outputs] for c in one.calls]}
            for name, one in self._found.items()
            if one.calls and not one.is_repeated
        ]

    def _begin(self, name: str) -> Callable[..., None]:
        def begin(_module: nn.Module, args: Any, kwargs: Any) -> None:
            if self._place.phase == FORWARD:
                inputs = self._numbers((args, kwargs))
                self._found[name].calls.append(_Call(self._place.backward_passes, inputs))

        return begin

    def _end(self, name: str) -> Callable[..., None]:
        def end(_module: nn.Module, _args: Any, outputs: Any) -> None:
            if self._place.phase == FORWARD and self._found[name].calls:
                self._found[name].calls[-1].outputs = self._numbers(outputs)

        return end

    def _numbers(self, value: Any) -> list[int]:
        if self.storages is None:
            return []
        known = (self.storages.find(storage) for _, storage in self.storages.of(value))
        return sorted({one.address for one in known if one is not None})


def _blocks(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    # The outermost modules with children in a list or sequence; without any, those in the model.
    listed = list(_listed(model, ""))
    yield from listed or (
        (name, child) for name, child in model.named_children() if _has_children(child)
    )


def _listed(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    is_list = isinstance(module, (nn.ModuleList, nn.Sequential))
    for name, child in module.named_children():
        place = f"{path}.{name}" if path else name
        is_container = isinstance(child, (nn.ModuleList, nn.Sequential))
        if is_list and _has_children(child) and not (is_container and any(_listed(child, ""))):
            yield place, child
        else:
            yield from _listed(child, place)


def _has_children(module: nn.Module) -> bool:
    return next(module.children(), None) is not None


def _checkpointed(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not (module.training and torch.is_grad_enabled()):
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run
