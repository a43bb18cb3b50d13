"""Apply a change to a running PyTorch program.

Some changes act when the program has imported PyTorch, others when its model is known.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from tbd_models.instrument.trial_request import name_and_argument

acted = False
"""True once a change has changed something."""

_OPTIMIZERS = ("Adam", "AdamW", "SGD", "Adagrad")  # with an implementation of both kinds


def apply_at_import(change: str) -> None:
    """Apply a change that needs no model."""
    name, argument = name_and_argument(change)
    if (function := _AT_IMPORT.get(name)) is not None:
        function(argument)
    if name in _SETTINGS:
        _note_action()


def apply_to_models(change: str, models: Sequence[nn.Module], called: Sequence[nn.Module]) -> None:
    """Apply a change to the modules that are trained.

    Args:
        models: the outermost modules with trained parameters.
        called: modules that the program calls.
    """
    name, _ = name_and_argument(change)
    if (function := _TO_MODELS.get(name)) is not None:
        function(models, called)
        _note_action()


def _note_action() -> None:
    global acted  # noqa: PLW0603 - of the program, as the changes are
    acted = True


def _with_arguments(owner: Any, chosen: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    # Change arguments of a class's __init__.
    original = owner.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **named: Any) -> None:
        bound = signature.bind(self, *args, **named)
        bound.arguments.update(chosen(bound.arguments))
        original(*bound.args, **bound.kwargs)
        _note_action()

    owner.__init__ = init


def _workers(argument: str) -> None:
    settings = {"num_workers": int(argument), "persistent_workers": True}
    _with_arguments(DataLoader, lambda _arguments: settings)


def _pinned(_argument: str) -> None:
    _with_arguments(DataLoader, lambda _arguments: {"pin_memory": True})
    for name in ("to", "cuda"):
        setattr(Tensor, name, functools.partialmethod(_without_blocking, getattr(Tensor, name)))


def _without_blocking(self: Tensor, original: Any, *args: Any, **named: Any) -> Any:
    return original(self, *args, **({"non_blocking": True} | named))


def _optimizer(kind: str) -> Callable[[str], None]:
    def apply(_argument: str) -> None:
        settings = {"fused": None, "foreach": None, kind: True}
        for name in _OPTIMIZERS:
            _with_arguments(getattr(torch.optim, name), lambda _arguments: settings)

    return apply


def _tf32(_argument: str) -> None:
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True


def _cudnn_benchmark(_argument: str) -> None:
    torch.backends.cudnn.benchmark = True


def _threads(argument: str) -> None:
    torch.set_num_threads(int(argument))


def _bucket(argument: str) -> None:
    _with_arguments(DistributedDataParallel, lambda _arguments: {"bucket_cap_mb": int(argument)})


def _compress(_argument: str) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (  # noqa: PLC0415
        bf16_compress_hook,
    )

    original = DistributedDataParallel.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        self.register_comm_hook(None, bf16_compress_hook)
        _note_action()

    DistributedDataParallel.__init__ = init  # type: ignore[method-assign]


def _amp(_models: Sequence[nn.Module], called: Sequence[nn.Module]) -> None:
    for module in called:
        module.forward = _in_bf16(module.forward, _device(module))


def _in_bf16(forward: Callable[..., Any], device: str) -> Callable[..., Any]:
    @functools.wraps(forward)
    def run(*args: Any, **named: Any) -> Any:
        with torch.autocast(device, torch.bfloat16):
            return _as_float(forward(*args, **named))

    return run


def _as_float(value: Any) -> Any:
    # The loss is computed outside, in FP32.
    if isinstance(value, Tensor):
        return value.float() if value.dtype is torch.bfloat16 else value
    if isinstance(value, dict):
        for key in value:
            value[key] = _as_float(value[key])
        return value
    return type(value)(map(_as_float, value)) if type(value) in (list, tuple) else value


def _compile(_models: Sequence[nn.Module], called: Sequence[nn.Module]) -> None:
    for module in called:
        module.forward = torch.compile(module.forward)


def _channels_last(models: Sequence[nn.Module], called: Sequence[nn.Module]) -> None:
    for module in models:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for module in called:
        module.register_forward_pre_hook(_images_channels_last)


def _images_channels_last(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        value.contiguous(memory_format=torch.channels_last)
        if isinstance(value, Tensor) and value.dim() == 4
        else value
        for value in inputs
    )


def _no_gc(_models: Sequence[nn.Module], _called: Sequence[nn.Module]) -> None:
    gc.collect()
    gc.freeze()
    gc.disable()


def _device(module: nn.Module) -> str:
    return next((p.device.type for p in module.parameters()), "cpu")


_AT_IMPORT: dict[str, Callable[[str], None]] = {
    "workers": _workers,
    "pinned": _pinned,
    "fused_optimizer": _optimizer("fused"),
    "foreach_optimizer": _optimizer("foreach"),
    "tf32": _tf32,
    "cudnn_benchmark": _cudnn_benchmark,
    "threads": _threads,
    "bucket": _bucket,
    "compress": _compress,
}
_SETTINGS = {"tf32", "cudnn_benchmark", "threads"}  # which act at once
_TO_MODELS: dict[str, Callable[[Sequence[nn.Module], Sequence[nn.Module]], None]] = {
    "amp": _amp,
    "compile": _compile,
    "channels_last": _channels_last,
    "no_gc": _no_gc,
}
