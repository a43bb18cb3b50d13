"""The layer list in PyTorch: layers sleep for their times and have gradients of their sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tbd_models.layer_list import TimedLayer
from tbd_models.pytorch.workload import Workload


class _Timed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: TimedLayer) -> Tensor:
        time.sleep(layer.fwd_s)
        ctx.save_for_backward(weight)
        ctx.layer = layer
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        # The gradient's memory is filled within the layer's time, as a real kernel would.
        end = time.perf_counter() + ctx.layer.bwd_s
        (weight,) = ctx.saved_tensors
        weight_gradient = torch.zeros_like(weight)
        time.sleep(max(0.0, end - time.perf_counter()))
        return gradient, weight_gradient, None


class TimedModule(nn.Module):
    """A layer that sleeps."""

    def __init__(self, layer: TimedLayer) -> None:
        super().__init__()
        self._layer = layer
        size = layer.grad_bytes // 4
        self.weight = nn.Parameter(torch.zeros(size), requires_grad=size > 0)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = _Timed.apply(x, self.weight, self._layer)
        return output


class _NoUpdate(torch.optim.Optimizer):
    # Updates would take time that the list does not have.

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> Any:
        return None if closure is None else closure()


def workload(layers: Sequence[TimedLayer]) -> Workload:
    """Return the workload of a layer list."""
    return Workload(
        model=nn.Sequential(*map(TimedModule, layers)),
        # Its gradient lets the backward pass reach layers without weights.
        batch=lambda size, _rng: {"x": torch.ones(size, 1, requires_grad=True)},
        forward=lambda model, batch: model(batch["x"]),
        loss=lambda output, _batch: output.sum(),
        optimizer=_NoUpdate,
    )
