"""The LAMB optimizer (You et al. 2020, arXiv:1904.00962)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Lamb(torch.optim.Optimizer):
    """LAMB: Adam with the step of each tensor scaled by the tensor's norm.

    A step is ``lr * |w| / |u| * u``; ``u`` is Adam's direction plus weight decay. Groups without
    weight decay (usually biases and scales) take Adam's unscaled step, as in the authors' code.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; return the loss of ``closure``, which recomputes gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if weights:
                self._update(group, weights)
        return loss

    def _update(self, group: dict[str, Any], weights: list[Tensor]) -> None:
        # _foreach functions update all tensors of a group in a few kernels, without waiting for
        # the device.
        group["step"] = group.get("step", 0) + 1
        decay = group["weight_decay"]
        directions = self._directions(group, weights)
        if decay:
            torch._foreach_add_(directions, weights, alpha=decay)
            torch._foreach_mul_(directions, _trust(weights, directions))
        torch._foreach_add_(weights, directions, alpha=-group["lr"])

    def _directions(self, group: dict[str, Any], weights: list[Tensor]) -> list[Tensor]:
        # Adam's bias-corrected directions.
        beta1, beta2 = group["betas"]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["mean"] = torch.zeros_like(weight)
                self.state[weight]["square"] = torch.zeros_like(weight)
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        means = [self.state[weight]["mean"] for weight in weights]
        squares = [self.state[weight]["square"] for weight in weights]
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_div_(roots, (1 - beta2 ** group["step"]) ** 0.5)
        torch._foreach_add_(roots, group["eps"])
        directions = torch._foreach_div(means, roots)
        torch._foreach_div_(directions, 1 - beta1 ** group["step"])
        return list(directions)


def _trust(weights: list[Tensor], directions: list[Tensor]) -> list[Tensor]:
    # |w| / |u| per tensor, 1 where either is 0.
    lengths = torch.stack(torch._foreach_norm(weights))
    steps = torch.stack(torch._foreach_norm(directions))
    ratios = torch.where((lengths > 0) & (steps > 0), lengths / steps, 1.0)
    return list(ratios.unbind())
