"""Deep Speech 2 in TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops

from tbd_models.deepspeech2 import Dimensions, padded_utterances
from tbd_models.synthetic import utterance_batch
from tbd_models.tensorflow.workload import Tensors, Workload, one_turn


def _normalized(x: Any, name: str) -> Any:
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=name)(x)


class Reversed(layers.Layer):
    """Sequences (N, steps, features) backward in time."""

    def call(self, x: Any) -> Any:
        return tf.reverse(x, [1])


def _stack(x: Any, d: Dimensions, prefix: str) -> Any:
    for number in range(d.recurrent_layers):
        name = f"{prefix}gru{number}"
        if d.normalized_layers and number:
            x = _normalized(x, f"{name}_bn")
        gru = layers.GRU(d.hidden, return_sequences=True, name=name)
        if d.directions == "joined":
            gru = layers.Bidirectional(gru, name=name)
        x = gru(x)
    return x


def network(d: Dimensions) -> keras.Model:
    """Return Deep Speech 2 for spectrograms (N, frames, bins) of any number of frames."""
    spectrogram = keras.Input((None, d.bins))
    x = layers.Reshape((-1, d.bins, 1), name="one_channel")(spectrogram)
    for number, spec in enumerate(d.convolutions):
        name = f"conv{number}"
        if any(spec.padding):
            x = layers.ZeroPadding2D(spec.padding, name=f"{name}_pad")(x)
        x = layers.Conv2D(d.channels, spec.kernel, spec.stride, use_bias=False, name=name)(x)
        x = layers.ReLU(20.0, name=f"{name}_clipped_relu")(_normalized(x, f"{name}_bn"))
    x = layers.Reshape((-1, d.features[1]), name="features")(x)
    if d.directions == "independent":
        back = _stack(Reversed(name="reversed")(x), d, "back_")
        both = [_stack(x, d, "ahead_"), Reversed(name="back_reversed")(back)]
        x = layers.Concatenate(name="joined")(both)
    else:
        x = _stack(x, d, "")
    if d.dense:
        x = layers.ReLU(name="dense_relu")(layers.Dense(d.dense, name="dense")(x))
    if d.normalized_head:
        x = _normalized(x, "scores_bn")
    return keras.Model(spectrogram, layers.Dense(d.labels, dtype="float32", name="scores")(x))


def ctc(scores: Any, batch: Tensors) -> Any:
    """Return the mean CTC loss per utterance for scores (N, steps, labels)."""
    size, steps, _ = ops.shape(scores)
    transcript = tf.cast(batch["transcript"], tf.int32)
    return tf.reduce_mean(
        tf.nn.ctc_loss(
            transcript,
            scores,
            _lengths(batch, "characters", size, ops.shape(transcript)[1]),
            _lengths(batch, "steps", size, steps),
            logits_time_major=False,
            blank_index=0,
        )
    )


def _lengths(batch: Tensors, name: str, size: Any, longest: Any) -> Any:
    # Utterances of equal length have no lengths.
    return tf.cast(batch[name], tf.int32) if name in batch else tf.fill([size], longest)


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    model = network(d)
    return Workload(
        model=model,
        batch=lambda size, rng: utterance_batch(
            size, (d.frames, d.bins), d.labels, d.transcript, rng
        ),
        turns=one_turn(
            model,
            forward=lambda batch: model(batch["spectrogram"], training=True),
            loss=ctc,
            optimizer=keras.optimizers.SGD(
                d.learning_rate, 0.9, nesterov=d.nesterov, global_clipnorm=d.clip_norm
            ),
        ),
        sized=lambda planned, rng: padded_utterances(planned, d, rng),
    )
