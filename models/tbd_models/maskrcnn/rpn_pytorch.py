"""Train Mask R-CNN's region proposal network and turn its output into proposals, in PyTorch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from tbd_models.maskrcnn import Dimensions
from tbd_models.pytorch import boxes as box_math


class Term(NamedTuple):
    """A term of the loss."""

    prediction: Tensor  # (N, R, ...)
    target: Tensor
    used: Tensor  # (N, R): entries that count


def level_anchors(d: Dimensions) -> list[Tensor]:
    """Return the anchors (A, 4) of P2 to P6."""
    return [
        box_math.grid_anchors(*size, stride, [anchor], d.anchor_ratios)
        for size, stride, anchor in zip(d.maps, d.strides, d.anchor_sizes, strict=True)
    ]


class RPNTargets(nn.Module):
    """Sample the anchors that train the region proposal network, and compute their targets."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.count = d.rpn_samples
        self.anchors: Tensor
        self.inside: Tensor
        self.fit(d)

    def fit(self, d: Dimensions) -> None:
        """Set the size of the images."""
        anchors = torch.cat(level_anchors(d))
        limit = torch.tensor([d.width, d.height])
        inside = ((anchors[:, :2] >= 0) & (anchors[:, 2:] <= limit)).all(-1)
        self.register_buffer("anchors", anchors, persistent=False)
        self.register_buffer("inside", inside, persistent=False)

    def forward(
        self, scores: list[Tensor], deltas: list[Tensor], box: Tensor, label: Tensor
    ) -> tuple[Term, Term]:
        # scores: (N, A) and deltas: (N, A, 4) per level; box: (N, G, 4); label: (N, G), 0 is none.
        # Returns the terms of objectness and of boxes.
        with torch.no_grad():
            overlap = box_math.iou(self.anchors, box)
            # As published, anchors that cross the image border do not train the network.
            overlap = torch.where(self.inside[:, None], overlap, 0.0)
            matched, kind = box_math.assign(overlap, label > 0, 0.7, 0.3, force=True)
            kind = torch.where(self.inside, kind, -1)
            index, positive, used = box_math.sample(kind, self.count, self.count // 2)
            aim = box_math.take(box, box_math.take(matched, index))
            target = box_math.encode(aim, self.anchors[index])
        return (
            Term(box_math.take(torch.cat(scores, 1), index), positive.float(), used),
            Term(box_math.take(torch.cat(deltas, 1), index), target, positive),
        )


class RegionProposals(nn.Module):
    """Select the best boxes per image from the output of the region proposal network."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.before, self.after = d.proposals_before, d.proposals_after
        self.levels = len(d.strides)
        self.fit(d)

    def fit(self, d: Dimensions) -> None:
        """Set the size of the images."""
        self.image = (d.height, d.width)
        for number, anchors in enumerate(level_anchors(d)):
            self.register_buffer(f"anchors{number}", anchors, persistent=False)

    @torch.no_grad()
    def forward(self, scores: list[Tensor], deltas: list[Tensor]) -> tuple[Tensor, Tensor]:
        # scores: (N, A) and deltas: (N, A, 4) per level.
        # Returns boxes (N, proposals, 4), best first, and which of them are valid.
        per_level = [
            self._best(number, scores[number], deltas[number]) for number in range(self.levels)
        ]
        score = torch.stack([score for score, _ in per_level], 1)
        boxes = torch.stack([boxes for _, boxes in per_level], 1)
        kept = box_math.keep_mask(boxes, score > -torch.inf, 0.7)
        score = torch.where(kept, score, -torch.inf).flatten(1)
        best = score.topk(min(self.after, score.shape[1]))
        return box_math.take(boxes.flatten(1, 2), best.indices), best.values > -torch.inf

    def _best(self, number: int, scores: Tensor, deltas: Tensor) -> tuple[Tensor, Tensor]:
        # Padded to equal length, so that all levels can be stacked.
        anchors: Tensor = getattr(self, f"anchors{number}")
        best = scores.topk(min(self.before, scores.shape[1]))
        boxes = box_math.decode(box_math.take(deltas, best.indices), anchors[best.indices])
        missing = self.before - best.values.shape[1]
        pad = nn.functional.pad
        return (
            pad(best.values, (0, missing), value=-torch.inf),
            pad(box_math.clip(boxes, *self.image), (0, 0, 0, missing)),
        )
