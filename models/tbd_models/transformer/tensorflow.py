"""Transformer in TensorFlow."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from numpy.typing import NDArray

from tbd_models.padded import translations
from tbd_models.synthetic import translation_batch
from tbd_models.tensorflow.workload import Tensors, Workload, one_turn, real_mean
from tbd_models.transformer import Dimensions

_EPSILON = 1e-5  # PyTorch's and MXNet's; Keras defaults to 1e-3
_HIDDEN = -1e9  # added to the scores of masked positions before the softmax


class MultiHeadAttention(layers.Layer):
    """Multi-head attention to a memory, or of a sequence to itself."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(name=name)
        self.heads, self.head_width = d.heads, d.width // d.heads
        self.query, self.key, self.value, self.output_projection = (
            layers.Dense(d.width, use_bias=False, name=part)
            for part in ("query", "key", "value", "output")
        )
        self.dropout = layers.Dropout(d.dropout, name="dropout")

    def call(self, x: Any, memory: Any, hidden: Any = None) -> Any:
        # x: (N, T, width), memory: (N, S, width), hidden: 1 for masked positions, in a
        # shape that extends to (N, heads, T, S).
        # Returns for each position of x a weighted mean of the memory (N, T, width).
        query, key = self._split(self.query(x)), self._split(self.key(memory))
        scores = tf.matmul(query / math.sqrt(self.head_width), key, transpose_b=True)
        if hidden is not None:
            scores += tf.cast(hidden * _HIDDEN, scores.dtype)
        weights = self.dropout(tf.nn.softmax(scores))
        mean = tf.matmul(weights, self._split(self.value(memory)))
        mean = tf.reshape(tf.transpose(mean, (0, 2, 1, 3)), tf.shape(x))
        return self.output_projection(mean)

    def _split(self, x: Any) -> Any:
        # (N, L, width) to (N, heads, L, width / heads).
        x = tf.reshape(x, (*ops.shape(x)[:2], self.heads, self.head_width))
        return tf.transpose(x, (0, 2, 1, 3))


class FeedForward(layers.Layer):
    """Two linear layers with a ReLU between them, applied to each position."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__(name="inner")
        self.parts = [
            layers.Dense(d.inner_width, name="expand"),
            layers.ReLU(name="relu"),
            layers.Dropout(d.dropout, name="dropout"),
            layers.Dense(d.width, name="contract"),
        ]

    def call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


def _norm(name: str) -> layers.LayerNormalization:
    return layers.LayerNormalization(epsilon=_EPSILON, name=name)


class EncoderLayer(layers.Layer):
    """Self-attention and a feed-forward sublayer."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(name=name)
        self.attention_norm = _norm("attention_norm")
        self.attention = MultiHeadAttention(d, "attention")
        self.inner_norm = _norm("inner_norm")
        self.inner = FeedForward(d)
        self.dropout = layers.Dropout(d.dropout, name="dropout")

    def call(self, x: Any, padding: Any = None) -> Any:
        y = self.attention_norm(x)
        x += self.dropout(self.attention(y, y, padding))
        return x + self.dropout(self.inner(self.inner_norm(x)))


class DecoderLayer(layers.Layer):
    """Masked self-attention, attention to the source, and a feed-forward sublayer."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(name=name)
        self.self_norm = _norm("self_norm")
        self.self_attention = MultiHeadAttention(d, "self_attention")
        self.source_norm = _norm("source_norm")
        self.source_attention = MultiHeadAttention(d, "source_attention")
        self.inner_norm = _norm("inner_norm")
        self.inner = FeedForward(d)
        self.dropout = layers.Dropout(d.dropout, name="dropout")

    def call(self, x: Any, memory: Any, hidden: Any, padding: Any = None) -> Any:
        # x: (N, T, width), memory: encoder output (N, S, width), hidden: (T, T), 1 is masked,
        # padding: (N, 1, 1, S), 1 is padding of the source.
        y = self.self_norm(x)
        x += self.dropout(self.self_attention(y, y, hidden))
        x += self.dropout(self.source_attention(self.source_norm(x), memory, padding))
        return x + self.dropout(self.inner(self.inner_norm(x)))


class Embedding(layers.Layer):
    """Embeddings of tokens plus sinusoidal embeddings of positions."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__(name="embedding")
        initial = keras.initializers.RandomNormal(stddev=d.width**-0.5)
        self.tokens = layers.Embedding(d.vocabulary, d.width, initial, name="tokens")
        self.dropout = layers.Dropout(d.dropout, name="dropout")
        self.scale = math.sqrt(d.width)
        self.positions = _sines(d.length, d.width)

    def call(self, tokens: Any) -> Any:
        x = self.tokens(tokens)
        positions = _beginning(self.positions, ops.shape(tokens)[1])
        return self.dropout(x * self.scale + tf.cast(positions, x.dtype))


class Scores(layers.Layer):
    """Scores of all tokens, computed with their embeddings as weights."""

    def call(self, x: Any, embeddings: Any) -> Any:
        rows = tf.reshape(x, (-1, x.shape[-1]))
        scores = tf.matmul(rows, tf.cast(embeddings, x.dtype), transpose_b=True)
        return tf.reshape(scores, (*ops.shape(x)[:2], embeddings.shape[0]))


class Transformer(keras.Model):
    """Encoder, decoder and scores of the target tokens."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.embedding = Embedding(d)
        self.encoder = [EncoderLayer(d, f"encoder{n}") for n in range(d.layers)]
        self.encoder_norm = _norm("encoder_norm")
        self.decoder = [DecoderLayer(d, f"decoder{n}") for n in range(d.layers)]
        self.decoder_norm = _norm("decoder_norm")
        self.scores = Scores(name="scores")
        self.later = np.triu(np.ones((d.length, d.length), np.float32), 1)

    def call(self, source: Any, target: Any, padding: Any = None) -> Any:
        # source, padding: (N, S), target: (N, T); returns token scores (N, T, vocabulary).
        if padding is not None:
            padding = tf.cast(padding, tf.float32)[:, None, None]
        memory = self.embedding(source)
        for layer in self.encoder:
            memory = layer(memory, padding)
        memory = self.encoder_norm(memory)
        x = self.embedding(target)
        later = _beginning(self.later, *(2 * ops.shape(target)[1:]))
        for layer in self.decoder:
            x = layer(x, memory, later, padding)
        embeddings = tf.convert_to_tensor(self.embedding.tokens.embeddings)
        return self.scores(self.decoder_norm(x), embeddings)


class _Rate(keras.optimizers.schedules.LearningRateSchedule):
    # Dimensions.rate with tensors; Keras counts steps from 0.

    def __init__(self, d: Dimensions) -> None:
        self._factor = d.learning_rate * d.width**-0.5
        self._warmup = d.warmup_steps

    def __call__(self, step: Any) -> Any:
        number = tf.cast(step, tf.float32) + 1.0
        return self._factor * tf.minimum(number**-0.5, number * self._warmup**-1.5)


def smoothed_cross_entropy(
    scores: Any, label: Any, smoothing: float, *, padded: bool = False
) -> Any:
    """Return the mean cross entropy; ``smoothing`` is spread evenly over all tokens.

    Padding has labels below 0.
    """
    logs = tf.nn.log_softmax(tf.cast(scores, tf.float32))
    right = tf.gather(logs, tf.maximum(label, 0) if padded else label, batch_dims=2)
    each = (1 - smoothing) * right + smoothing * tf.reduce_mean(logs, -1)
    return -(real_mean(each, label) if padded else tf.reduce_mean(each))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    model = Transformer(d)

    def loss(scores: Any, batch: Tensors) -> Any:
        return smoothed_cross_entropy(
            scores, batch["label"], d.label_smoothing, padded="padding" in batch
        )

    return Workload(
        model=model,
        batch=lambda size, rng: translation_batch(size, d.length, d.vocabulary, rng),
        turns=one_turn(
            model,
            forward=lambda batch: model(
                batch["source"], batch["target"], batch.get("padding"), training=True
            ),
            loss=loss,
            optimizer=keras.optimizers.Adam(_Rate(d), 0.9, 0.98, epsilon=1e-9),
        ),
        sized=lambda planned, rng: translations(planned, d.vocabulary, rng),
    )


def _beginning(table: NDArray[np.float32], *lengths: Any) -> Any:
    # Sentences of unequal length can have lengths that are unknown in the graph.
    known = all(isinstance(length, int) for length in lengths)
    return (table if known else tf.constant(table))[tuple(map(slice, lengths))]


def _sines(length: int, width: int) -> Any:
    # As in Tensor2Tensor: sines, then cosines, of wavelengths from 2 pi to 10000 * 2 pi.
    steps = np.arange(width // 2) / (width // 2 - 1)
    angles = np.arange(length)[:, None] * np.exp(-math.log(10000) * steps)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
