"""Run a workload on fake tensors, which have shapes but no memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode

from tbd_models.pytorch.recurrent import without_onednn
from tbd_models.pytorch.workload import Batch, Workload
from tbd_models.settings import Settings

_ASSUMED = [
    "sizes as requested: no scratch memory of libraries, no rounding by an allocator",
    "fused attention as by the CPU's kernel; attention from matrix products as written",
    "recurrent layers as steps of matrix products, not as fused kernels",
]
_ASSUMED_ON_GPU = [
    "dropout masks of 1 byte per element, as CUDA's fused dropout keeps",
    "optimizers update all parameters of a group at once (foreach), as by default on CUDA",
]
_ASSUMED_ON_CPU = ["dropout masks of the type of the values, as on a CPU"]
_ASSUMED_IN_MIXED = "mixed precision in bfloat16 without loss scaling"


@contextmanager
def estimating(settings: Settings) -> Iterator[tuple[Settings, list[str]]]:
    """Enable fake tensors in the block; yield settings for it and the assumptions in words.

    Fake tensors are on the CPU, because fake ``cuda`` tensors abort the process in the backward
    pass of a PyTorch without CUDA. For a device ``cuda`` operations are replaced by the ones of
    CUDA.
    """
    mixed = settings.precision == "mixed"
    assumed = assumptions(settings.device)
    on_cpu = dataclasses.replace(
        settings, device="cpu", precision="mixed" if mixed else "fp32", data=None
    )
    with kernels_of(settings.device), FakeTensorMode(), _Converged():
        yield on_cpu, assumed + ([_ASSUMED_IN_MIXED] if mixed else [])


def fake_batches(workload: Workload, settings: Settings) -> Callable[[int], Batch]:
    """Return a function from a step number to a batch of fake tensors."""
    with unset_fake_temporarily():
        sample = workload.batch(1, np.random.default_rng(settings.seed))
    return lambda _number: {
        name: _resized(value, settings.batch_size) for name, value in sample.items()
    }


def _resized(value: Any, size: int) -> Any:
    # The first axis is the sample.
    if isinstance(value, Tensor):
        return torch.empty((size, *value.shape[1:]), dtype=value.dtype)
    return [torch.empty(value[0].shape, dtype=value[0].dtype) for _ in range(size)]


def update_at_once(optimizer: torch.optim.Optimizer) -> None:
    """Let an optimizer update all parameters of a group at once, as it does by default on CUDA."""
    for group in optimizer.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True


class _Converged(TorchFunctionMode):
    # Comparisons of values end loops that run until nothing changes.

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return True if func is torch.equal else func(*args, **(kwargs or {}))


def assumptions(device: str) -> list[str]:
    """Return in words what an estimate assumes of the kernels of a device, ``cuda`` or ``cpu``."""
    return _ASSUMED + (_ASSUMED_ON_GPU if device == "cuda" else _ASSUMED_ON_CPU)


@contextmanager
def kernels_of(device: str) -> Iterator[None]:
    """Let fake tensors on the CPU have the sizes that kernels of a device make."""
    # Kernels for all callers, C++ included. The autograd key of the CPU precedes the functions that
    # ATen composes of other operations.
    with torch.library._scoped_library("aten", "IMPL") as library, without_onednn():
        if device == "cuda":
            library.impl("dropout", _dropout, "AutogradCPU")
        library.impl("ctc_loss.Tensor", _ctc_loss, "AutogradCPU")
        yield


def _dropout(values: Tensor, probability: float, train: bool) -> Tensor:
    # As on CUDA. The trivial cases are those of ATen.
    if not train or probability == 0:
        return values
    if probability == 1:
        return values * torch.zeros_like(values)
    return torch.native_dropout(values, probability, train)[0]


def _ctc_loss(  # noqa: PLR0917  (as in ATen)
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor,
    target_lengths: Tensor,
    _blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    # ATen's kernel reads the lengths on the CPU, and fake tensors have no values.
    losses: Tensor = _CTC.apply(scores, targets, lengths, target_lengths)
    if zero_infinity:
        losses = torch.where(losses == torch.inf, 0, losses)
    if reduction == 0:
        return losses
    return losses.sum() if reduction == 2 else (losses / target_lengths.clamp(min=1)).mean()


class _CTC(torch.autograd.Function):
    # Sizes of aten::_ctc_loss if all targets have equal length.

    @staticmethod
    def forward(context: Any, scores: Tensor, targets: Tensor, *lengths: Tensor) -> Tensor:
        steps, size, _ = scores.shape
        longest = targets.shape[1] if targets.dim() == 2 else targets.numel() // size
        alpha = scores.new_empty(size, steps, 2 * longest + 1)
        losses = scores.new_empty(size)
        context.save_for_backward(scores, targets, *lengths, losses, alpha)
        return losses

    @staticmethod
    def backward(context: Any, *gradients: Any) -> tuple[Tensor, None, None, None]:
        return torch.empty_like(context.saved_tensors[0]), None, None, None
