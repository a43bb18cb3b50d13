"""Seq2Seq in MXNet."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.gluon import HybridBlock, nn, rnn

from tbd_models.mxnet.workload import HIDDEN, Workload, cross_entropy
from tbd_models.padded import translations
from tbd_models.seq2seq import Dimensions
from tbd_models.synthetic import translation_batch


class Encoder(HybridBlock):
    """Embedding and unidirectional LSTM layers."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self._d = d
        self.embedding = nn.Embedding(d.source_vocabulary, d.width)
        self.lstm = rnn.LSTM(d.width, d.layers, layout="NTC", input_size=d.width)

    def hybrid_forward(self, F: Any, words: Any) -> Any:
        # Returns the states after each word (N, S, width) and the last state of each layer.
        # Initial states (layers, N, width), made from zeros_like() so that no gradient flows.
        column = F.expand_dims(F.zeros_like(F.slice_axis(words, axis=1, begin=0, end=1)), 0)
        zero = F.tile(column, reps=(self._d.layers, 1, self._d.width))
        memory, states = self.lstm(self.embedding(words), [zero, zero])
        return memory, *states


class AdditiveAttention(HybridBlock):
    """Attention with scores from a layer of tanh units (Bahdanau et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Dense(width, use_bias=False, in_units=width)
        self.score = nn.Dense(1, use_bias=False, flatten=False, in_units=width)

    def hybrid_forward(
        self, F: Any, query: Any, keys: Any, memory: Any, padding: Any = None
    ) -> Any:
        # query: (N, width), keys: projected memory (N, S, width), memory: (N, S, width),
        # padding: (N, S), 1 for positions of the memory to leave out.
        # Returns the memory's mean (N, width), weighted by how well its keys match the query.
        added = F.broadcast_add(keys, F.expand_dims(self.query(query), 1))
        scores = self.score(F.tanh(added))
        if padding is not None:
            scores = scores + F.expand_dims(padding * HIDDEN, 2)
        weights = F.softmax(scores, axis=1)
        return F.squeeze(F.batch_dot(weights, memory, transpose_a=True), axis=1)


class Decoder(HybridBlock):
    """LSTM layers that read a word and the previous attention vector in each step."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self._d = d
        self.embedding = nn.Embedding(d.target_vocabulary, d.width)
        self.cells = nn.HybridSequential()
        for layer in range(d.layers):
            inputs = 2 * d.width if layer == 0 else d.width
            self.cells.add(rnn.LSTMCell(d.width, input_size=inputs))
        self.keys = nn.Dense(d.width, use_bias=False, flatten=False, in_units=d.width)
        self.attention = AdditiveAttention(d.width)
        self.combine = nn.Dense(d.width, use_bias=False, in_units=2 * d.width)

    def hybrid_forward(  # noqa: PLR0917 - gluon passes arrays by position
        self, F: Any, words: Any, memory: Any, hidden: Any, cell: Any, padding: Any = None
    ) -> Any:
        # words: previous target words (N, T), memory: encoder states (N, S, width), hidden and
        # cell: last encoder states (layers, N, width). Returns attention vectors (N, T, width).
        d = self._d
        keys = self.keys(memory)
        parts = (
            F.split(s, num_outputs=d.layers, axis=0, squeeze_axis=True) for s in (hidden, cell)
        )
        states = [list(state) for state in zip(*parts, strict=True)]
        attended = F.zeros_like(states[0][0])
        vectors = []
        # Input feeding (Luong et al. 2015): the first layer reads the previous attention vector,
        # so no layer can process all steps at once.
        embedded = self.embedding(words)
        # Only padded sentences have another length, and they run eagerly, as arrays.
        length = d.length if padding is None else words.shape[1]
        for word in _steps(F, embedded, length):
            x = F.concat(word, attended, dim=1)
            for layer, lstm in enumerate(self.cells):
                x, states[layer] = lstm(x, states[layer])
            context = self.attention(x, keys, memory, padding)
            attended = self.combine(F.concat(x, context, dim=1))
            vectors.append(attended)
        return F.stack(*vectors, axis=1)


def _steps(F: Any, x: Any, length: int) -> list[Any]:
    # (N, T, width) to T arrays (N, width).
    steps = F.split(x, num_outputs=length, axis=1, squeeze_axis=True)
    return [steps] if length == 1 else list(steps)


class Seq2Seq(HybridBlock):
    """Encoder, decoder and scores of the target words."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.encoder = Encoder(d)
        self.decoder = Decoder(d)
        self.scores = nn.Dense(d.target_vocabulary, use_bias=False, flatten=False, in_units=d.width)

    def hybrid_forward(self, F: Any, source: Any, target: Any, padding: Any = None) -> Any:
        # source, padding: (N, S), target: (N, T); returns word scores (N, T, vocabulary).
        return self.scores(self.decoder(target, *self.encoder(source), padding))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return Workload(
        model=Seq2Seq(d),
        batch=lambda size, rng: translation_batch(
            size, d.length, d.source_vocabulary, rng, d.target_vocabulary
        ),
        inputs=("source", "target"),
        loss=lambda scores, batch: cross_entropy(scores, batch["label"], padded="padding" in batch),
        optimizer=lambda: mx.optimizer.Adam(learning_rate=d.learning_rate),
        initializer=mx.init.Uniform(0.1),
        clip_norm=d.clip_norm,
        sized=lambda planned, rng: translations(
            planned, d.source_vocabulary, rng, d.target_vocabulary
        ),
        unrolled=True,
    )
