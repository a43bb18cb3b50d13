"""RoIAlign: features of boxes, by bilinear interpolation."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Maps(NamedTuple):
    """Maps of several sizes, one looked at for each of R boxes.

    Attributes:
        rows: pixels (P, C) of all maps one after the other, each row by row.
        start: first pixel (R) of the map looked at.
        height: rows (R) of that map.
        width: columns (R) of that map.
    """

    rows: Tensor
    start: Tensor
    height: Tensor
    width: Tensor


def bilinear(maps: Maps, y: Tensor, x: Tensor) -> Tensor:
    """Return the values of maps at fractional positions.

    Args:
        maps: which maps.
        y: rows (R, points, points); outside the map its nearest pixel counts.
        x: columns (R, points, points).

    Returns:
        Values (R, points, points, C) in the type of the pixels, in float32 for whole numbers.
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
            # index_select and not [...]: its gradient is added in place, without sorting.
            found = maps.rows.index_select(0, pixel.flatten()).view(*pixel.shape, -1)
            term = found.to(dtype) * weight[..., None].to(dtype)
            result = term if result is None else result + term
    assert result is not None
    return result


def grid(boxes: Tensor, points: int) -> tuple[Tensor, Tensor]:
    """Return rows and columns of evenly spread points, (R, points, points) each.

    Args:
        boxes: boxes (R, 4) in pixels of the map; smaller ones are taken as one pixel large.
        points: points in each direction.
    """
    fraction = (torch.arange(points, device=boxes.device) + 0.5) / points
    size = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1)
    x = boxes[:, 0, None] + fraction * size[:, 0, None]
    y = boxes[:, 1, None] + fraction * size[:, 1, None]
    rows, columns = torch.broadcast_tensors(y[:, :, None], x[:, None, :])
    return rows, columns


def roi_align(maps: Maps, boxes: Tensor, bins: int, samples: int) -> Tensor:
    """Return the features (R, C, bins, bins) of boxes, as Mask R-CNN defines them.

    Args:
        maps: which maps the boxes are taken from.
        boxes: boxes (R, 4) in pixels of their maps.
        bins: bins in each direction.
        samples: points in each direction of a bin, over which the features are averaged.
    """
    y, x = grid(boxes, bins * samples)
    total: Tensor | None = None
    # Every bin's first point, then every bin's second: all at once would take far more memory.
    for down in range(samples):
        for across in range(samples):
            points = (slice(None), slice(down, None, samples), slice(across, None, samples))
            part = bilinear(maps, y[points], x[points])
            total = part if total is None else total + part
    assert total is not None
    return (total / samples**2).permute(0, 3, 1, 2)
