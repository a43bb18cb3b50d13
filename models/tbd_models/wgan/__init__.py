"""WGAN-GP: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of a residual generator and critic."""

    image_size: int = 64  # height and width in pixels
    latent: int = 128  # random numbers per generated image
    # Channels of the generator's feature maps; a block between two of them doubles the image size.
    # The critic has the same blocks in reverse order.
    widths: tuple[int, ...] = (512, 512, 256, 128, 64)
    critic_turns: int = 5  # updates of the critic per update of the generator
    penalty: float = 10.0  # weight of the gradient penalty

    @property
    def units_per_sample(self) -> int:
        """Return the images of the data set per place in the batch and iteration."""
        return self.critic_turns

    @property
    def first_size(self) -> int:
        """Return height and width of the generator's first feature map (the critic's last)."""
        return self.image_size >> (len(self.widths) - 1)


MODEL = Model(
    name="wgan",
    title="WGAN-GP",
    application="adversarial learning",
    frameworks=("tensorflow",),
    layers="14+14",
    dominant_layer="CONV",
    dominant_types=("Conv2D",),
    batch_definition="images of an update; an iteration is 1 update of the generator and 5 of the "
    "critic, each with new images",
    throughput_unit="images/s",
    variants=(
        Variant(
            name="resnet-64x64",
            dimensions=Dimensions(),
            small=Dimensions(image_size=16, latent=16, widths=(16, 16, 8, 8)),
            dataset="ImageNet 64x64",
            default_batch_size=64,
            sweep=(4, 8, 16, 32, 64),
            optimizer="adam",
            parameters=16_032_324,
            forward_flop=74_202_660_864,
            training_flop=234_190_176_256,
            source="TBD suite, TensorFlow (gan_64x64.py); Gulrajani et al. 2017, arXiv:1704.00028",
        ),
    ),
    notes="FLOP are those of an iteration per image of its batch: five updates of the critic, each "
    "on real images, generated ones and a mixture, with the gradient penalty differentiated twice, "
    "and one of the generator. Throughput counts the images of the data set, five per place in the "
    "batch and iteration. The loss is the critic's in the last of its updates: its negative "
    "without the penalty estimates the Wasserstein distance. The generator is updated first, as in "
    "the published code, here in the very first iteration too. Layer normalization has a scale and "
    "an offset per channel, as published; Keras calls that group normalization with one group. "
    "Random numbers are part of the synthetic batch, whose pictures are discs of many colours.",
)
