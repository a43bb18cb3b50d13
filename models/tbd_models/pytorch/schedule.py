"""Learning rate schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def scheduled(
    optimizer: torch.optim.Optimizer, rate: Callable[[int], float]
) -> torch.optim.Optimizer:
    """Set the optimizer's learning rate to ``rate(step)`` before each step; the first step is 1.

    Steps that loss scaling skips do not count. The state dict includes the step number.
    """

    def before(stepping: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        for group in stepping.param_groups:
            group["scheduled_step"] = group.get("scheduled_step", 0) + 1
            group["lr"] = rate(group["scheduled_step"])

    optimizer.register_step_pre_hook(before)
    return optimizer
