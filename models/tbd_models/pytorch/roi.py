"""RoIAlign: pool features of boxes by bilinear interpolation."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Maps(NamedTuple):
    """Maps of different sizes; box r of R reads from one of them."""

    rows: Tensor  # pixels (P, C) of all maps, map by map and row by row
    start: Tensor  # first pixel (R) of the map of each box
    height: Tensor  # (R), of that map
    width: Tensor  # (R), of that map


def bilinear(maps: Maps, y: Tensor, x: Tensor) -> Tensor:
    """Return map values (R, points, points, C) at fractional rows ``y`` and columns ``x``.

    Positions outside a map read its nearest pixel. Integer pixels give float32.
    """
    dtype = maps.rows.dtype if maps.rows.dtype.is_floating_point else torch.float32
    start, height, width = (value[:, None, None] for value in maps[1:])
    y = torch.minimum(y.clamp(min=0), height - 1)
    x = torch.minimum(x.clamp(min=0), width - 1)
    top, left = y.floor(), x.floor()
    result: Tensor | None = None
    for below in (0, 1):
        for right in (0, 1):
            row = torch.minimum(top + below, height - 1).long()
            column = torch.minimum(left + right, width - 1).long()
            weight = (1 - (y - top - below).abs()) * (1 - (x - left - right).abs())
            pixel = start + row * width + column
            # The gradient of index_select is added in place; that of [...] would be sorted first.
            pixels = maps.rows.index_select(0, pixel.flatten()).view(*pixel.shape, -1)
            term = pixels.to(dtype) * weight[..., None].to(dtype)
            result = term if result is None else result + term
    assert result is not None
    return result


def grid(boxes: Tensor, points: int) -> tuple[Tensor, Tensor]:
    """Return rows and columns (R, points, points) of evenly spaced points in boxes (R, 4)."""
    fraction = (torch.arange(points, device=boxes.device) + 0.5) / points
    size = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1)  # a minimum of one pixel, as published
    x = boxes[:, 0, None] + fraction * size[:, 0, None]
    y = boxes[:, 1, None] + fraction * size[:, 1, None]
    rows, columns = torch.broadcast_tensors(y[:, :, None], x[:, None, :])
    return rows, columns


def roi_align(maps: Maps, boxes: Tensor, bins: int, samples: int) -> Tensor:
    """Return features (R, C, bins, bins) of boxes (R, 4) in pixels of their maps.

    Each bin is the mean of ``samples`` x ``samples`` points (He et al. 2017).
    """
    y, x = grid(boxes, bins * samples)
    total: Tensor | None = None
    # Point by point of all bins: reading all points at once would take samples² times the memory.
    for down in range(samples):
        for across in range(samples):
            points = (slice(None), slice(down, None, samples), slice(across, None, samples))
            part = bilinear(maps, y[points], x[points])
            total = part if total is None else total + part
    assert total is not None
    return (total / samples**2).permute(0, 3, 1, 2)
