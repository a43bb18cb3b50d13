"""Synthetic images that can be learnt."""

from __future__ import annotations

import torch
from torch import Tensor


def image_batch(
    size: int, image_size: int, classes: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return ``image`` (N, 3, H, W) in float32 and ``label`` (N) in int64.

    The images of a class share a pattern under the noise, so that there is something to learn.
    """
    label = torch.randint(classes, (size,), generator=generator)
    noise = torch.randn(size, 3, image_size, image_size, generator=generator)
    phase = label.to(torch.float32)[:, None, None, None] / classes
    across = torch.linspace(0, 1, image_size)[None, None, None, :]
    return {
        "image": noise + torch.sin(6.28 * (phase + across * (1 + label % 7)[:, None, None, None])),
        "label": label,
    }
