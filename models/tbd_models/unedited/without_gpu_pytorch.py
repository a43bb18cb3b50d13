"""Let a program that asks for a GPU run on the CPU, and without ``torch.compile``."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_NOTHING = ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats")
_COPIES = (Tensor.cuda, Tensor.pin_memory)


class WithoutGpu:
    """Replace the device ``cuda`` by ``cpu`` in this process, until it ends.

    ``torch.cuda.is_available()`` stays false. Automatic casting to float16 becomes one to bfloat16,
    of the same size.
    """

    def __init__(self) -> None:
        self._mode = _OnCpu()
        self._mode.__enter__()
        self.is_compiled = False  # by the program, which runs without
        for name in _NOTHING:
            setattr(torch.cuda, name, _without_effect(getattr(torch.cuda, name)))
        _cast_on_cpu()
        self._leave_out_compilation()

    def _leave_out_compilation(self) -> None:
        os.environ["TORCH_COMPILE_DISABLE"] = "1"
        if (settings := sys.modules.get("torch._dynamo.config")) is not None:
            settings.disable = True  # type: ignore[attr-defined]
        original = torch.compile

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.is_compiled = True
            return original(*args, **kwargs)

        torch.compile = noted


class _OnCpu(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _COPIES:
            return args[0]
        if _is_cuda(kwargs.get("device")):
            kwargs["device"] = "cpu"
        if func is Tensor.to:
            args = tuple("cpu" if _is_cuda(value) else value for value in args)
        return func(*args, **kwargs)


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.partition(":")[0] == "cuda"


def _cast_on_cpu() -> None:
    casting: Any = torch.amp.autocast_mode.autocast
    original = casting.__init__

    @functools.wraps(original)
    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", torch.bfloat16
        original(self, device_type, dtype, *args, **kwargs)

    casting.__init__ = init


def _without_effect(function: Any) -> Any:
    # A function for each: the compiler of PyTorch requires distinct ones.
    @functools.wraps(function)
    def nothing(*_args: Any, **_kwargs: Any) -> None:
        pass

    return nothing
