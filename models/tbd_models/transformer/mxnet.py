"""Transformer in MXNet."""

from __future__ import annotations

import math
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock, nn

from tbd_models.mxnet.workload import HIDDEN, Workload, cross_entropy
from tbd_models.padded import translations
from tbd_models.synthetic import translation_batch
from tbd_models.transformer import Dimensions


def _dense(units: int, inputs: int, bias: bool = False) -> nn.Dense:
    return nn.Dense(units, use_bias=bias, flatten=False, in_units=inputs)


class MultiHeadAttention(HybridBlock):
    """Multi-head attention to a memory, or of a sequence to itself."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self._heads = d.heads
        self._scale = math.sqrt(d.width / d.heads)
        self.query = _dense(d.width, d.width)
        self.key = _dense(d.width, d.width)
        self.value = _dense(d.width, d.width)
        self.dropout = nn.Dropout(d.dropout)
        self.output = _dense(d.width, d.width)

    def hybrid_forward(self, F: Any, x: Any, memory: Any, hidden: Any = None) -> Any:
        # x: (N, T, width), memory: (N, S, width), hidden: added to the scores, in a shape that
        # extends to (N x heads, T, S).
        # Returns for each position of x a weighted mean of the memory (N, T, width).
        query, key = self._split(F, self.query(x)), self._split(F, self.key(memory))
        scores = F.batch_dot(query / self._scale, key, transpose_b=True)
        if hidden is not None:
            scores = F.broadcast_add(scores, hidden)
        weights = self.dropout(F.softmax(scores, axis=-1))
        mean = F.batch_dot(weights, self._split(F, self.value(memory)))
        mean = F.reshape(mean, shape=(-4, -1, self._heads, 0, 0))
        return self.output(F.reshape(F.transpose(mean, axes=(0, 2, 1, 3)), shape=(0, 0, -3)))

    def _split(self, F: Any, x: Any) -> Any:
        # (N, L, width) to (N x heads, L, width / heads).
        x = F.transpose(F.reshape(x, shape=(0, 0, -4, self._heads, -1)), axes=(0, 2, 1, 3))
        return F.reshape(x, shape=(-3, 0, 0))


def _feed_forward(d: Dimensions) -> HybridBlock:
    block = nn.HybridSequential()
    block.add(
        _dense(d.inner_width, d.width, bias=True),
        nn.Activation("relu"),
        nn.Dropout(d.dropout),
        _dense(d.width, d.inner_width, bias=True),
    )
    return block


class EncoderLayer(HybridBlock):
    """Self-attention and a feed-forward sublayer."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(in_channels=d.width)
        self.attention = MultiHeadAttention(d)
        self.inner_norm = nn.LayerNorm(in_channels=d.width)
        self.inner = _feed_forward(d)
        self.dropout = nn.Dropout(d.dropout)

    def hybrid_forward(self, F: Any, x: Any, padding: Any = None) -> Any:
        y = self.attention_norm(x)
        x = x + self.dropout(self.attention(y, y, padding))
        return x + self.dropout(self.inner(self.inner_norm(x)))


class DecoderLayer(HybridBlock):
    """Masked self-attention, attention to the source, and a feed-forward sublayer."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.self_norm = nn.LayerNorm(in_channels=d.width)
        self.self_attention = MultiHeadAttention(d)
        self.source_norm = nn.LayerNorm(in_channels=d.width)
        self.source_attention = MultiHeadAttention(d)
        self.inner_norm = nn.LayerNorm(in_channels=d.width)
        self.inner = _feed_forward(d)
        self.dropout = nn.Dropout(d.dropout)

    def hybrid_forward(self, F: Any, x: Any, memory: Any, hidden: Any, padding: Any = None) -> Any:
        # x: (N, T, width), memory: encoder output (N, S, width), hidden: (1, T, T),
        # padding: (N x heads, 1, S).
        y = self.self_norm(x)
        x = x + self.dropout(self.self_attention(y, y, hidden))
        x = x + self.dropout(self.source_attention(self.source_norm(x), memory, padding))
        return x + self.dropout(self.inner(self.inner_norm(x)))


class Embedding(HybridBlock):
    """Embeddings of tokens plus sinusoidal embeddings of positions."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self._scale = math.sqrt(d.width)
        initializer = mx.init.Normal(d.width**-0.5)
        self.tokens = nn.Embedding(d.vocabulary, d.width, weight_initializer=initializer)
        self.dropout = nn.Dropout(d.dropout)
        self.positions = self.params.get_constant("positions", _sines(d.length, d.width)[None])

    def hybrid_forward(self, F: Any, tokens: Any, shorter: bool = False, *, positions: Any) -> Any:
        # Sentences of unequal length are padded to less than the longest one.
        if shorter:
            positions = F.slice_like(positions, tokens, axes=(1,))
        return self.dropout(F.broadcast_add(self.tokens(tokens) * self._scale, positions))


class Transformer(HybridBlock):
    """Encoder, decoder and scores of the target tokens."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self._heads = d.heads
        self.embedding = Embedding(d)
        self.encoder = nn.HybridSequential()
        self.decoder = nn.HybridSequential()
        for _ in range(d.layers):
            self.encoder.add(EncoderLayer(d))
            self.decoder.add(DecoderLayer(d))
        self.encoder_norm = nn.LayerNorm(in_channels=d.width)
        self.decoder_norm = nn.LayerNorm(in_channels=d.width)
        self.scores = nn.Dense(
            d.vocabulary,
            use_bias=False,
            flatten=False,
            in_units=d.width,
            params=self.embedding.tokens.params,
        )
        later = np.triu(np.full((1, d.length, d.length), HIDDEN, np.float32), 1)
        self.later = self.params.get_constant("later", later)

    def hybrid_forward(
        self, F: Any, source: Any, target: Any, padding: Any = None, *, later: Any
    ) -> Any:
        # source, padding: (N, S), target: (N, T); returns token scores (N, T, vocabulary).
        shorter = padding is not None
        if shorter:
            padding = F.expand_dims(F.repeat(padding * HIDDEN, repeats=self._heads, axis=0), 1)
            # From (1, L, L) to (1, T, T).
            for _ in range(2):
                later = F.transpose(F.slice_like(later, target, axes=(1,)), axes=(0, 2, 1))
        memory = self.embedding(source, shorter)
        if padding is None:
            memory = self.encoder(memory)
        else:  # which HybridSequential passes to its first layer only
            for layer in self.encoder:
                memory = layer(memory, padding)
        memory = self.encoder_norm(memory)
        x = self.embedding(target, shorter)
        for layer in self.decoder:
            x = layer(x, memory, later, padding)
        return self.scores(self.decoder_norm(x))


class _Rate(mx.lr_scheduler.LRScheduler):
    # MXNet counts updates from 1.

    def __init__(self, d: Dimensions) -> None:
        super().__init__(d.rate(1))
        self._d = d

    def __call__(self, num_update: int) -> float:
        return self._d.rate(max(num_update, 1))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return Workload(
        model=Transformer(d),
        batch=lambda size, rng: translation_batch(size, d.length, d.vocabulary, rng),
        inputs=("source", "target"),
        loss=lambda scores, batch: cross_entropy(
            scores, batch["label"], d.label_smoothing, padded="padding" in batch
        ),
        optimizer=lambda: mx.optimizer.Adam(
            learning_rate=d.rate(1), beta1=0.9, beta2=0.98, epsilon=1e-9, lr_scheduler=_Rate(d)
        ),
        initializer=mx.init.Xavier("uniform", "avg", magnitude=3),
        sized=lambda planned, rng: translations(planned, d.vocabulary, rng),
    )


def _sines(length: int, width: int) -> Any:
    # As in Tensor2Tensor: sines, then cosines, of wavelengths from 2 pi to 10000 * 2 pi.
    steps = np.arange(width // 2) / (width // 2 - 1)
    angles = np.arange(length)[:, None] * np.exp(-math.log(10000) * steps)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
