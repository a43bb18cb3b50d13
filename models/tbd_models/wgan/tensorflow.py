"""WGAN-GP in TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from tbd_models.synthetic import adversarial_batch
from tbd_models.tensorflow.workload import Tensors, Turn, Workload, channels_last, slope
from tbd_models.wgan import Dimensions

_EPSILON = 1e-5


def _convolution(x: Any, width: int, size: int, name: str, *, bias: bool = True) -> Any:
    return layers.Conv2D(
        width, size, padding="same", use_bias=bias, kernel_initializer="he_uniform", name=name
    )(x)


def _shortcut(x: Any, width: int, name: str) -> Any:
    return layers.Conv2D(width, 1, kernel_initializer="glorot_uniform", name=f"{name}_shortcut")(x)


def _batch_normalized(x: Any, name: str) -> Any:
    return layers.BatchNormalization(momentum=0.9, epsilon=_EPSILON, name=name)(x)


def _layer_normalized(x: Any, name: str) -> Any:
    # Over the whole image, with scale and offset per channel: group normalization in Keras.
    return layers.GroupNormalization(groups=1, epsilon=_EPSILON, name=name)(x)


def _growing(x: Any, width: int, name: str) -> Any:
    shortcut = layers.UpSampling2D(name=f"{name}_shortcut_upsample")(x)
    shortcut = _shortcut(shortcut, width, name)
    y = layers.ReLU(name=f"{name}_relu1")(_batch_normalized(x, f"{name}_bn1"))
    y = layers.UpSampling2D(name=f"{name}_upsample")(y)
    y = _convolution(y, width, 3, f"{name}_conv1", bias=False)
    y = layers.ReLU(name=f"{name}_relu2")(_batch_normalized(y, f"{name}_bn2"))
    y = _convolution(y, width, 3, f"{name}_conv2")
    return layers.Add(name=f"{name}_add")([shortcut, y])


def _shrinking(x: Any, width: int, name: str) -> Any:
    shortcut = layers.AveragePooling2D(2, name=f"{name}_shortcut_pool")(x)
    shortcut = _shortcut(shortcut, width, name)
    y = layers.ReLU(name=f"{name}_relu1")(_layer_normalized(x, f"{name}_ln1"))
    y = _convolution(y, x.shape[-1], 3, f"{name}_conv1", bias=False)
    y = layers.ReLU(name=f"{name}_relu2")(_layer_normalized(y, f"{name}_ln2"))
    y = _convolution(y, width, 3, f"{name}_conv2")
    y = layers.AveragePooling2D(2, name=f"{name}_pool")(y)
    return layers.Add(name=f"{name}_add")([shortcut, y])


def generator(d: Dimensions) -> keras.Model:
    """Return a network from noise (N, latent) to images (N, H, W, 3)."""
    noise = keras.Input((d.latent,))
    x = layers.Dense(d.first_size**2 * d.widths[0], name="input")(noise)
    x = layers.Reshape((d.first_size, d.first_size, d.widths[0]), name="reshape")(x)
    for block, width in enumerate(d.widths[1:]):
        x = _growing(x, width, f"block{block}")
    x = layers.ReLU(name="relu")(_batch_normalized(x, "bn"))
    x = _convolution(x, 3, 3, "output")
    x = layers.Activation("tanh", dtype="float32", name="tanh")(x)
    return keras.Model(noise, x, name="generator")


def critic(d: Dimensions) -> keras.Model:
    """Return a network from images (N, H, W, 3) to scores (N, 1)."""
    image = keras.Input((d.image_size, d.image_size, 3))
    x = layers.Conv2D(
        d.widths[-1], 3, padding="same", kernel_initializer="glorot_uniform", name="input"
    )(image)
    for block, width in enumerate(d.widths[-2::-1]):
        x = _shrinking(x, width, f"block{block}")
    x = layers.Flatten(name="flatten")(x)
    return keras.Model(image, layers.Dense(1, dtype="float32", name="output")(x), name="critic")


class Pair(keras.Model):
    """Generator and critic as one model."""

    def __init__(self, d: Dimensions) -> None:
        """Build both networks."""
        super().__init__()
        self.generator = generator(d)
        self.critic = critic(d)
        self.built = True

    def critic_outputs(self, batch: Tensors) -> dict[str, Any]:
        """Return the critic's scores and its gradient between real and generated images."""
        real, made = batch["image"], self.generator(batch["noise"], training=True)
        between = real + batch["mix"] * (made - real)
        return {
            "real": self.critic(real, training=True),
            "made": self.critic(made, training=True),
            "slope": slope(lambda image: self.critic(image, training=True), between),
        }


def _critic_loss(critic_outputs: dict[str, Any], penalty: float) -> Any:
    # Gulrajani et al. 2017, equation 3: Wasserstein estimate and penalty on gradient norms not 1.
    steepness = tf.sqrt(tf.reduce_sum(tf.square(critic_outputs["slope"]), [1, 2, 3]))
    advantage = tf.reduce_mean(critic_outputs["made"]) - tf.reduce_mean(critic_outputs["real"])
    return advantage + penalty * tf.reduce_mean(tf.square(steepness - 1))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions; an iteration ends with the critic's loss."""
    pair = Pair(d)

    def adam() -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam(1e-4, beta_1=0.0, beta_2=0.9, epsilon=1e-8)

    return Workload(
        model=pair,
        batch=lambda size, rng: adversarial_batch(size, d.image_size, d.latent, rng),
        convert=channels_last,
        turns=(
            Turn(
                forward=lambda batch: pair.critic(
                    pair.generator(batch["noise"], training=True), training=True
                ),
                loss=lambda scores, _: -tf.reduce_mean(scores),
                weights=lambda: pair.generator.trainable_weights,
                optimizer=adam(),
            ),
            Turn(
                forward=pair.critic_outputs,
                loss=lambda critic_outputs, _: _critic_loss(critic_outputs, d.penalty),
                weights=lambda: pair.critic.trainable_weights,
                optimizer=adam(),
                times=d.critic_turns,
            ),
        ),
    )
