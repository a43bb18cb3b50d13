"""Inception-v3: dimensions, variants and network layout for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of Inception-v3."""

    image_size: int = 299  # height and width in pixels
    classes: int = 1000
    narrowing: int = 1  # divisor of the published channels of each convolution
    dropout: float = 0.2  # before the classifier
    # Weight in the loss of a second classifier, behind the last 17x17 block; 0 for none.
    auxiliary_weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution without bias, batch normalization (epsilon 0.001) and ReLU."""

    channels: int  # of the output
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    same: bool = True  # keep the image size: pad by half the kernel


@dataclass(frozen=True, slots=True)
class Pool:
    """A 3x3 pooling."""

    # max: stride 2, no padding; average: stride 1, padded by 1, zeros counted.
    kind: str


@dataclass(frozen=True, slots=True)
class Fork:
    """Branches over the same input; their outputs are concatenated along the channels."""

    branches: tuple[tuple[Step, ...], ...]


Step: TypeAlias = "Conv | Pool | Fork"


def network(d: Dimensions) -> dict[str, Step]:
    """Return the steps before global average pooling, in order, by their published names."""

    def conv(channels: int, height: int = 1, width: int = 0, **options: int) -> Conv:
        return Conv(
            channels // d.narrowing,
            (height, width or height),
            options.get("stride", 1),
            bool(options.get("same", 1)),
        )

    def block_35(pooled: int) -> Fork:
        return Fork(
            (
                (conv(64),),
                (conv(48), conv(64, 5)),
                (conv(64), conv(96, 3), conv(96, 3)),
                (Pool("average"), conv(pooled)),
            )
        )

    def block_17(inner: int) -> Fork:
        down, across = (7, 1), (1, 7)
        return Fork(
            (
                (conv(192),),
                (conv(inner), conv(inner, *across), conv(192, *down)),
                (
                    conv(inner),
                    conv(inner, *down),
                    conv(inner, *across),
                    conv(inner, *down),
                    conv(192, *across),
                ),
                (Pool("average"), conv(192)),
            )
        )

    def block_8() -> Fork:
        split = Fork(((conv(384, 1, 3),), (conv(384, 3, 1),)))
        return Fork(
            (
                (conv(320),),
                (conv(384), split),
                (conv(448), conv(384, 3), split),
                (Pool("average"), conv(192)),
            )
        )

    halved = {"stride": 2, "same": 0}
    return {
        "conv_1a": conv(32, 3, **halved),
        "conv_2a": conv(32, 3, same=0),
        "conv_2b": conv(64, 3),
        "pool_3a": Pool("max"),
        "conv_3b": conv(80),
        "conv_4a": conv(192, 3, same=0),
        "pool_5a": Pool("max"),
        "mixed_5b": block_35(32),
        "mixed_5c": block_35(64),
        "mixed_5d": block_35(64),
        "mixed_6a": Fork(
            (
                (conv(384, 3, **halved),),
                (conv(64), conv(96, 3), conv(96, 3, **halved)),
                (Pool("max"),),
            )
        ),
        "mixed_6b": block_17(128),
        "mixed_6c": block_17(160),
        "mixed_6d": block_17(160),
        "mixed_6e": block_17(192),
        "mixed_7a": Fork(
            (
                (conv(192), conv(320, 3, **halved)),
                (conv(192), conv(192, 1, 7), conv(192, 7, 1), conv(192, 3, **halved)),
                (Pool("max"),),
            )
        ),
        "mixed_7b": block_8(),
        "mixed_7c": block_8(),
    }


# The smallest image whose last feature maps (2x2) hold more than one value, which batch
# normalization of a single image needs.
_SMALL = Dimensions(image_size=107, classes=10, narrowing=8)
_PUBLISHED: dict[str, Any] = {
    "dataset": "ImageNet-1k",
    "default_batch_size": 32,
    "sweep": (4, 8, 16, 32, 64),
    "optimizer": "sgd",
    "source": "Szegedy et al. 2016, arXiv:1512.00567",
}

MODEL = Model(
    name="inception3",
    title="Inception-v3",
    application="image classification",
    frameworks=("pytorch", "tensorflow", "mxnet"),
    layers="42",
    dominant_layer="CONV",
    dominant_types=("Conv2d", "Conv2D"),
    batch_definition="images",
    throughput_unit="images/s",
    defaults={"tensorflow": "v3-aux"},
    variants=(
        Variant(
            name="v3",
            dimensions=Dimensions(),
            small=_SMALL,
            parameters=23_834_568,
            forward_flop=11_426_432_192,
            training_flop=34_240_933_248,
            **_PUBLISHED,
        ),
        Variant(
            name="v3-aux",
            dimensions=Dimensions(auxiliary_weight=0.4),
            small=replace(_SMALL, auxiliary_weight=0.4),
            frameworks=("tensorflow",),
            parameters=27_161_264,
            forward_flop=11_437_798_592,
            training_flop=34_275_032_448,
            **_PUBLISHED,
        ),
    ),
    notes=(
        "v3-aux has the auxiliary head, as the suite trained it in TensorFlow; its loss has the "
        "weight 0.4. In the other frameworks the suite has no auxiliary head. In TensorFlow, SGD "
        "has no momentum, as in the suite. Where the publication is silent (padding, order of the "
        "asymmetric filters, dropout) the authors' own TensorFlow implementation is followed."
    ),
)
