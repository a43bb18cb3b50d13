"""ResNet-50: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    # v1 halves the image in the first 1x1 convolution of a stage, v1.5 in the 3x3. v2 normalizes
    # before convolutions; v2-slim halves in the last block of a stage, has biases in all
    # convolutions without normalization behind them, and none of the stem's normalizations.
    version: Literal["v1", "v1.5", "v2", "v2-slim"] = "v1"

    @property
    def is_slim(self) -> bool:
        """Return True for the network of TensorFlow's slim library."""
        return self.version == "v2-slim"

    def strides(self, stage: int) -> list[int]:
        """Return the strides of the blocks of a stage, numbered from 0."""
        others = [1] * (self.blocks[stage] - 1)
        if self.is_slim:
            return [*others, 2 if stage < len(self.blocks) - 1 else 1]
        return [2 if stage else 1, *others]


def _variant(
    name: Literal["v1", "v1.5", "v2", "v2-slim"], source: str, parameters: int, forward_flop: int
) -> Variant:
    # The gradient of the input is computed only for the normalization before the first convolution.
    first = 0 if name == "v2" else 2 * 112 * 112 * 64 * 3 * 7 * 7
    return Variant(
        name=name,
        dimensions=Dimensions(version=name),
        small=Dimensions(
            image_size=64, widths=(8, 16, 32, 64), stem_width=8, classes=10, version=name
        ),
        dataset="ImageNet-1k",
        default_batch_size=32,
        sweep=(1, 2, 4, 8, 16, 32, 64, 96, 128),
        optimizer="sgd",
        parameters=parameters,
        forward_flop=forward_flop,
        training_flop=3 * forward_flop - first,
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
    notes="The default is the network that the suite ran in the framework: v1.5 in PyTorch "
    "(torchvision's), v2-slim in TensorFlow and v2 in MXNet. v1 and v1.5 have the same parameters; "
    "v1.5 halves the image in the 3x3 convolution instead of the 1x1 before it. v2 normalizes "
    "before each convolution, and the image itself. v2-slim halves the image in the last block of "
    "a stage. MXNet's collection has biases in the 1x1 convolutions of v1; here there are none, as "
    "published. In TensorFlow, SGD has no momentum, as in the suite.",
    defaults={"tensorflow": "v2-slim", "mxnet": "v2"},
    variants=(
        _variant("v1.5", "stride in the 3x3 convolution", 25_557_032, 8_178_368_512),
        _variant("v1", "He et al. 2016, arXiv:1512.03385", 25_557_032, 7_715_946_496),
        _variant("v2", "He et al. 2016, arXiv:1603.05027", 25_549_486, 8_178_368_512),
        _variant("v2-slim", "TensorFlow slim, resnet_v2_50", 25_568_360, 6_964_510_720),
    ),
)
