"""Select and pool the regions that Mask R-CNN's heads are trained on, in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tbd_models.maskrcnn import Dimensions
from tbd_models.pytorch import boxes as box_math
from tbd_models.pytorch.roi import Maps, bilinear, grid, roi_align

# Scale deltas to about unit variance, as in Fast R-CNN.
DELTA_WEIGHTS = (10.0, 5.0)


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The maps of a feature pyramid as one table."""

    rows: Tensor  # (cells, C): the finest map image by image, then the next
    images: int


class PyramidTable(nn.Module):
    """Concatenate the maps of a pyramid, to pool boxes of all levels at once."""

    def forward(self, maps: list[Tensor]) -> Pyramid:
        # maps: (N, C, H, W), finest first.
        rows = [level.permute(0, 2, 3, 1).flatten(0, 2) for level in maps]
        return Pyramid(torch.cat(rows), len(maps[0]))


class RoIAlign(nn.Module):
    """Pool features of boxes, each from the pyramid level for its size."""

    def __init__(self, d: Dimensions, bins: int) -> None:
        super().__init__()
        self.bins, self.samples, self.canonical_size = bins, d.samples, d.canonical_size
        self.table: Tensor  # per level: height, width, cells of an image on finer levels
        self.fit(d)

    def fit(self, d: Dimensions) -> None:
        """Set the size of the images."""
        sizes = d.maps[:-1]
        before = [sum(h * w for h, w in sizes[:level]) for level in range(len(sizes))]
        table = [[h, w, cells] for (h, w), cells in zip(sizes, before, strict=True)]
        self.register_buffer("table", torch.tensor(table), persistent=False)

    def forward(self, pyramid: Pyramid, boxes: Tensor) -> Tensor:
        # boxes: (N, R, 4) in image pixels; returns (N x R, C, bins, bins).
        images = pyramid.images
        level = self._level(boxes)
        height, width, before = (self.table[:, column][level] for column in range(3))
        image = torch.arange(images, device=boxes.device)[:, None]
        start = before * images + image * height * width
        scaled = boxes * (0.25 * 0.5**level)[..., None]  # P2 has stride 4
        maps = Maps(pyramid.rows, start.flatten(), height.flatten(), width.flatten())
        return roi_align(maps, scaled.flatten(0, 1), self.bins, self.samples)

    def _level(self, boxes: Tensor) -> Tensor:
        # Lin et al. 2017, equation 1: 0 is P2, 3 is P5.
        size = box_math.area(boxes).clamp(min=1e-6).sqrt()
        level = 2 + torch.log2(size / self.canonical_size + 1e-6).floor()
        return level.clamp(0, len(self.table) - 1).long()


class Regions(NamedTuple):
    """The R regions per image that the heads are trained on."""

    boxes: Tensor  # (N, R, 4)
    label: Tensor  # class (N, R), 0 for the background
    delta: Tensor  # target of the box head (N, R, 4)
    matched: Tensor  # object (N, R)
    positive: Tensor  # (N, R): holds an object; possible for the first positive_rois only
    used: Tensor  # (N, R): counts in the loss


class BoxTargets(nn.Module):
    """Sample the regions that train the heads, and compute their targets."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.rois, self.positive_rois = d.rois, d.positive_rois

    @torch.no_grad()
    def forward(self, proposals: Tensor, valid: Tensor, box: Tensor, label: Tensor) -> Regions:
        """Return regions sampled from proposals (N, P, 4) and from the objects themselves.

        ``valid`` (N, P) masks the proposals; ``box`` is (N, G, 4), ``label`` (N, G) with 0 for no
        object.
        """
        present = label > 0
        candidates = torch.cat([proposals, box], 1)
        valid = torch.cat([valid, present], 1)
        overlap = box_math.iou(candidates, box)
        matched, kind = box_math.assign(overlap, present, 0.5, 0.5, force=False)
        kind = torch.where(valid, kind, -1)
        index, positive, used = box_math.sample(kind, self.rois, self.positive_rois)
        boxes = box_math.take(candidates, index)
        matched = box_math.take(matched, index)
        return Regions(
            boxes=boxes,
            label=torch.where(positive, box_math.take(label, matched), 0),
            delta=box_math.encode(box_math.take(box, matched), boxes, DELTA_WEIGHTS),
            matched=matched,
            positive=positive,
            used=used,
        )


class MaskTargets(nn.Module):
    """Crop the masks of objects to their regions."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.bins = 2 * d.mask_bins

    @torch.no_grad()
    def forward(self, mask: Tensor, boxes: Tensor, matched: Tensor) -> Tensor:
        # mask: (N, G, H, W), boxes: (N, R, 4), matched: object (N, R) of each region.
        # Returns masks of 0 and 1 (N, R, bins, bins).
        images, objects, height, width = mask.shape
        image = torch.arange(images, device=mask.device)[:, None]
        start = ((image * objects + matched) * height * width).flatten()
        size = [torch.full_like(start, pixels) for pixels in (height, width)]
        # Pixel values are at pixel centres.
        y, x = grid(boxes.flatten(0, 1) - 0.5, self.bins)
        values = bilinear(Maps(mask.reshape(-1, 1), start, *size), y, x)
        return (values >= 0.5).float().view(*matched.shape, self.bins, self.bins)
