"""EfficientDet: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tbd_models.corpus import Corpus, PlannedBatch, Sizes, in_order
from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of inverted bottleneck blocks (MBConv)."""

    expansion: int  # inner channels per input channel
    channels: int  # of the output
    blocks: int
    kernel: int  # of the depthwise convolution
    stride: int  # of the first block


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of EfficientDet."""

    image_size: int = 512  # height and width in pixels, a multiple of 128
    objects: int = 16  # maximum per image
    stem: int = 32  # channels of the first convolution
    # EfficientNet-B0, Tan and Le 2019, table 1.
    stages: tuple[Stage, ...] = (
        Stage(1, 16, 1, 3, 1),
        Stage(6, 24, 2, 3, 2),
        Stage(6, 40, 2, 5, 2),
        Stage(6, 80, 3, 3, 2),
        Stage(6, 112, 3, 5, 1),
        Stage(6, 192, 4, 5, 2),
        Stage(6, 320, 1, 3, 1),
    )
    tapped: tuple[int, int, int] = (2, 4, 6)  # stages whose outputs are P3, P4 and P5
    squeeze: float = 0.25  # channels inside squeeze-and-excitation per input channel of the block
    drop: float = 0.2  # stochastic depth of the last block; rises linearly from 0
    width: int = 64  # channels of pyramid and heads
    pyramid_repeats: int = 3  # BiFPN layers
    head_repeats: int = 3  # separable convolutions of a head before the last one
    classes: int = 90
    anchor_scale: float = 4.0  # size of a level's smallest anchors in strides
    octave: tuple[float, ...] = (0.0, 1 / 3, 2 / 3)  # exponents of 2 of anchor sizes
    anchor_ratios: tuple[float, ...] = (0.5, 1.0, 2.0)  # height / width
    learning_rate: float = 0.01

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the pixels per cell of P3 to P7."""
        return (8, 16, 32, 64, 128)

    @property
    def anchors_per_cell(self) -> int:
        """Return the number of anchors at each cell."""
        return len(self.octave) * len(self.anchor_ratios)


MODEL = Model(
    name="efficientdet",
    title="EfficientDet",
    application="object detection",
    frameworks=("pytorch", "tensorflow"),
    layers="n/a",
    dominant_layer="CONV",
    dominant_types=("Conv2d", "Conv2D", "DepthwiseConv2D", "SeparableConv2D"),
    batch_definition="images",
    throughput_unit="images/s",
    variants=(
        Variant(
            name="d0",
            dimensions=Dimensions(),
            # P7 of 256 pixels still holds 4 cells: batch normalization needs more than one value.
            small=Dimensions(
                image_size=256,
                objects=4,
                stem=8,
                stages=(
                    Stage(1, 8, 1, 3, 1),
                    Stage(2, 8, 1, 3, 2),
                    Stage(2, 16, 2, 5, 2),
                    Stage(2, 16, 1, 3, 2),
                    Stage(2, 24, 1, 5, 1),
                    Stage(2, 24, 1, 5, 2),
                    Stage(2, 32, 1, 3, 1),
                ),
                width=16,
                pyramid_repeats=2,
                head_repeats=2,
                classes=5,
                learning_rate=0.05,
            ),
            dataset="COCO 2017",
            default_batch_size=8,
            sweep=(1, 2, 4, 8, 16),
            optimizer="sgd",
            parameters=3_880_067,
            forward_flop=4_984_663_040,
            training_flop=14_840_742_912,
            source="Tan et al. 2020, arXiv:1911.09070",
        ),
    ),
    notes=(
        "Batch sizes are ours: the suite published none. The learning rate is the paper's 0.16 for "
        "128 images, scaled to 8, without its schedule. Depthwise convolutions with stride 2 are "
        "padded on both sides, where the authors' code pads on one; sizes and work are the same. "
        "In TensorFlow the depthwise and the 1x1 convolution of pyramid and heads are one layer, "
        "SeparableConv2D."
    ),
)


def corpus(d: Dimensions) -> Corpus:
    """Return images that are scaled to the longer side, and padded to a square as published."""

    def batches(shapes: Sizes, size: int, _: np.random.Generator) -> list[PlannedBatch]:
        ratio = shapes / 100
        pixels = d.image_size * np.stack([np.minimum(ratio, 1), np.minimum(1 / ratio, 1)], 1)
        return in_order(np.rint(pixels).astype(np.int64), size, (d.image_size, d.image_size))

    return Corpus(histogram="coco", unit="pixels", policy="padded", batches=batches, longest=1000)
