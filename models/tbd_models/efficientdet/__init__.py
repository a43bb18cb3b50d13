"""EfficientDet: what its frameworks share."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of inverted bottleneck blocks; the first block has the stride.

    Attributes:
        expansion: channels inside a block per channel that goes in.
        channels: channels that come out.
        blocks: number of blocks.
        kernel: size of the depthwise filters.
        stride: of the first block.
    """

    expansion: int
    channels: int
    blocks: int
    kernel: int
    stride: int


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of EfficientDet.

    Attributes:
        image_size: height and width in pixels, a multiple of 128.
        objects: most objects in an image.
        stem: channels of the first convolution.
        stages: stages of the backbone.
        tapped: stages whose outputs are P3, P4 and P5.
        squeeze: channels inside a squeeze-and-excitation per channel that goes into its block.
        drop: probability with which the last block is skipped; it rises linearly from 0.
        width: channels of the pyramid and of the heads.
        pyramid_repeats: number of bidirectional pyramids one after the other.
        head_repeats: separable convolutions of a head before the last one.
        classes: classes of objects.
        anchor_scale: size of the smallest anchors of a level divided by its stride.
        octave: exponents of two of the sizes of the anchors of a level.
        anchor_ratios: heights of the anchors divided by their widths.
        learning_rate: of stochastic gradient descent.
    """

    image_size: int = 512
    objects: int = 16
    stem: int = 32
    stages: tuple[Stage, ...] = (
        Stage(1, 16, 1, 3, 1),
        Stage(6, 24, 2, 3, 2),
        Stage(6, 40, 2, 5, 2),
        Stage(6, 80, 3, 3, 2),
        Stage(6, 112, 3, 5, 1),
        Stage(6, 192, 4, 5, 2),
        Stage(6, 320, 1, 3, 1),
    )
    tapped: tuple[int, int, int] = (2, 4, 6)
    squeeze: float = 0.25
    drop: float = 0.2
    width: int = 64
    pyramid_repeats: int = 3
    head_repeats: int = 3
    classes: int = 90
    anchor_scale: float = 4.0
    octave: tuple[float, ...] = (0.0, 1 / 3, 2 / 3)
    anchor_ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    learning_rate: float = 0.01

    @property
    def strides(self) -> tuple[int, ...]:
        """Pixels per cell of P3 to P7."""
        return (8, 16, 32, 64, 128)

    @property
    def anchors_per_cell(self) -> int:
        """Anchors at every cell."""
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
