"""Learning rates that change with the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def scheduled(
    optimizer: torch.optim.Optimizer, rate: Callable[[int], float]
) -> torch.optim.Optimizer:
    """Return the optimizer with its learning rate set before each of its steps.

    Steps that loss scaling skips do not count. How far the schedule is is part of the optimizer's
    state dict.

    Args:
        optimizer: changed in place.
        rate: learning rate by the number of the step, which starts from 1.
    """

    def before(stepping: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        for group in stepping.param_groups:
            group["scheduled_step"] = group.get("scheduled_step", 0) + 1
            group["lr"] = rate(group["scheduled_step"])

    optimizer.register_step_pre_hook(before)
    return optimizer
