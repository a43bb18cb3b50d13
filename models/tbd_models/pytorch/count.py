"""Count parameters and FLOP of a PyTorch workload with torch's own counter."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tbd_models.definition import Counted
from tbd_models.pytorch.workload import to_device

# torch 2.13 counts the gradient of a grouped convolution's weights once per group.
_GROUPED = "training: torch counts grouped convolutions backward once per group"


def count(build: Any, dimensions: Any) -> Counted:
    """Return the counts of one sample; meta tensors have shapes but neither memory nor work."""
    meta = torch.device("meta")
    with meta:
        work = build(dimensions)
    batch = to_device(work.batch(1, np.random.default_rng(0)), meta)
    with FlopCounterMode(display=False) as forward:
        output = work.forward(work.model, batch)
        loss = work.loss(output, batch)
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    grouped = any(isinstance(m, nn.Conv2d) and m.groups > 1 for m in work.model.modules())
    first = forward.get_total_flops()
    return Counted(
        counter=f"torch {torch.__version__.partition('+')[0]} FlopCounterMode",
        parameters=sum(p.numel() for p in work.model.parameters() if p.requires_grad),
        forward_flop=first,
        training_flop=None if grouped else first + backward.get_total_flops(),
        uncounted=_GROUPED if grouped else "",
    )
