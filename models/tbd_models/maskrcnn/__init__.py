"""Mask R-CNN: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tbd_models import resnet50
from tbd_models.corpus import Corpus, PlannedBatch, Sizes, complete_batches, to_longest
from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of Mask R-CNN with a feature pyramid."""

    height: int = 800  # of the padded image, a multiple of 32
    width: int = 1344  # of the padded image, a multiple of 32
    objects: int = 16  # maximum per image
    backbone: resnet50.Dimensions = field(default_factory=resnet50.Dimensions)
    frozen_stages: int = 1  # not trained, like the stem
    width_fpn: int = 256  # channels of pyramid, RPN and mask head
    width_box: int = 1024  # units of the box head's two fully connected layers
    classes: int = 81  # with the background, class 0
    anchor_sizes: tuple[int, ...] = (32, 64, 128, 256, 512)  # sqrt(area) in P2 to P6, in pixels
    anchor_ratios: tuple[float, ...] = (0.5, 1.0, 2.0)  # height / width
    rpn_samples: int = 256  # anchors per image that train the RPN, at most half of them positive
    proposals_before: int = 2000  # per image and level, before non-maximum suppression
    proposals_after: int = 1000  # per image, after it
    rois: int = 512  # proposals per image that train the heads
    positive_rois: int = 128  # maximum with an object; only they train the mask head
    canonical_size: int = 224  # size in pixels of a box that is pooled from P4
    box_bins: int = 7  # RoIAlign output size of the box head
    mask_bins: int = 14  # the same of the mask head, whose masks are twice as large
    samples: int = 2  # sampling points per bin and direction
    learning_rate: float = 0.0025

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the pixels per cell of P2 to P6."""
        return (4, 8, 16, 32, 64)

    @property
    def longest(self) -> int:
        """Return the longest side of an image that is not padded."""
        return int(self.height * 1333 / 800)

    @property
    def maps(self) -> tuple[tuple[int, int], ...]:
        """Return height and width of P2 to P6."""
        return tuple((-(-self.height // s), -(-self.width // s)) for s in self.strides)


MODEL = Model(
    name="maskrcnn",
    title="Mask R-CNN",
    application="object detection",
    frameworks=("pytorch", "tensorflow"),
    layers="101",
    dominant_layer="CONV",
    dominant_types=("Conv2d", "Conv2D"),
    batch_definition="images",
    throughput_unit="images/s",
    variants=(
        Variant(
            name="r50-fpn",
            dimensions=Dimensions(),
            small=Dimensions(
                height=128,
                width=160,
                objects=4,
                backbone=resnet50.Dimensions(widths=(8, 8, 16, 16), stem_width=8, blocks=(1,) * 4),
                width_fpn=16,
                width_box=32,
                classes=5,
                anchor_sizes=(8, 16, 32, 64, 128),
                rpn_samples=64,
                proposals_before=50,
                proposals_after=30,
                rois=16,
                positive_rois=4,
                canonical_size=56,
                learning_rate=0.01,
            ),
            dataset="COCO 2014",
            default_batch_size=2,
            sweep=(1, 2),
            optimizer="sgd",
            parameters=44_125_173,
            forward_flop=543_692_683_776,
            training_flop=1_549_397_257_728,
            source="He et al. 2017, arXiv:1703.06870; Detectron, e2e_mask_rcnn_R-50-FPN_1x",
        ),
    ),
    notes=(
        "44,347,573 parameters, of which stem and first stage (222,400) are not trained; batch "
        "normalization is frozen. Without --lengths, all images are padded to one size (short side "
        "800, width 1344). "
        "Before suppression the 2000 best proposals of every pyramid level are taken, after it the "
        "1000 best of the image. FLOP are those of training, with 512 boxes and 128 masks per "
        "image. The site's 101 layers do not fit a backbone of 50."
    ),
)


def corpus(d: Dimensions) -> Corpus:
    """Return images with a short side of 800 pixels, or a long one of 1333 if that is less.

    As in Detectron, a batch has either upright or wide images, and sides are multiples of 32.
    """

    def batches(shapes: Sizes, size: int, _: np.random.Generator) -> list[PlannedBatch]:
        complete: list[tuple[int, PlannedBatch]] = []
        for alike in (np.flatnonzero(shapes > 100), np.flatnonzero(shapes <= 100)):
            complete += [
                (int(rows[-1]), to_longest(_pixels(shapes[rows], d), multiple=32))
                for rows in complete_batches(alike, size)
            ]
        return [batch for _, batch in sorted(complete, key=lambda entry: entry[0])]

    return Corpus(histogram="coco", unit="pixels", policy="bucketed", batches=batches, longest=1000)


def _pixels(shapes: Sizes, d: Dimensions) -> Sizes:
    # From heights in percent of the width to (height, width).
    ratio = shapes / 100
    long = np.minimum(d.height * np.maximum(ratio, 1 / ratio), d.longest)
    pixels = np.where(ratio <= 1, np.array([long * ratio, long]), np.array([long, long / ratio]))
    return np.rint(pixels.T).astype(np.int64)
