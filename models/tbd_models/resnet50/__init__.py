"""ResNet-50: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of a residual network of bottleneck blocks."""

    image_size: int = 224  # height and width in pixels
    widths: tuple[int, ...] = (64, 128, 256, 512)  # inner channels of the blocks per stage
    blocks: tuple[int, ...] = (3, 4, 6, 3)  # per stage
    stem_width: int = 64  # channels of the first convolution
    expansion: int = 4  # output channels of a block per inner channel
    classes: int = 1000
    # v1.5 halves the image in the 3x3 convolution, v1 in the 1x1 convolution before it.
    stride_in_3x3: bool = False


def _variant(
    name: str, source: str, forward_flop: int, training_flop: int, stride_in_3x3: bool
) -> Variant:
    return Variant(
        name=name,
        dimensions=Dimensions(stride_in_3x3=stride_in_3x3),
        small=Dimensions(
            image_size=64,
            widths=(8, 16, 32, 64),
            stem_width=8,
            classes=10,
            stride_in_3x3=stride_in_3x3,
        ),
        dataset="ImageNet-1k",
        default_batch_size=32,
        sweep=(1, 2, 4, 8, 16, 32, 64, 96, 128),
        optimizer="sgd",
        parameters=25_557_032,
        forward_flop=forward_flop,
        training_flop=training_flop,
        source=source,
    )


MODEL = Model(
    name="resnet50",
    title="ResNet-50",
    application="image classification",
    frameworks=("pytorch", "tensorflow", "mxnet"),
    layers="50",
    dominant_layer="CONV",
    dominant_types=("Conv2d", "Conv2D"),
    batch_definition="images",
    throughput_unit="images/s",
    notes="The default is v1, as in the TensorFlow and MXNet model collections; torchvision's "
    "ResNet-50 is v1.5, which has the same parameters and 6 % more operations. MXNet's collection "
    "has biases in the 1x1 convolutions of v1; here there are none, as published.",
    variants=(
        _variant("v1", "He et al. 2016, arXiv:1512.03385", 7_715_946_496, 22_911_811_584, False),
        _variant("v1.5", "stride in the 3x3 convolution", 8_178_368_512, 24_299_077_632, True),
    ),
)
