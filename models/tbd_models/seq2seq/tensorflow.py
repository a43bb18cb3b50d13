"""Seq2Seq in TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from tbd_models.padded import translations
from tbd_models.seq2seq import Dimensions
from tbd_models.synthetic import translation_batch
from tbd_models.tensorflow.workload import Workload, cross_entropy, one_turn

# Hidden state and memory cell of a layer, each (N, width).
State = list[Any]


def _initial() -> keras.initializers.Initializer:
    # A new one for each weight: an initializer of Keras returns the same values on each call.
    return keras.initializers.RandomUniform(-0.1, 0.1)


def _recurrent() -> dict[str, Any]:
    kinds = ("kernel", "recurrent", "bias")
    return {f"{kind}_initializer": _initial() for kind in kinds} | {"unit_forget_bias": False}


def _linear(units: int, name: str) -> layers.Dense:
    return layers.Dense(units, use_bias=False, kernel_initializer=_initial(), name=name)


def _embedding(vocabulary: int, width: int) -> layers.Embedding:
    return layers.Embedding(vocabulary, width, _initial(), name="embedding")


class Encoder(layers.Layer):
    """Embedding and unidirectional LSTM layers."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__(name="encoder")
        self.embedding = _embedding(d.source_vocabulary, d.width)
        self.recurrent = [
            layers.LSTM(
                d.width, return_sequences=True, return_state=True, name=f"lstm{n}", **_recurrent()
            )
            for n in range(d.layers)
        ]

    def call(self, words: Any) -> tuple[Any, list[State]]:
        # Returns the states after each word (N, S, width) and the last state of each layer.
        x = self.embedding(words)
        states = []
        for layer in self.recurrent:
            x, *state = layer(x)
            states.append(state)
        return x, states


class AdditiveAttention(layers.Layer):
    """Attention with scores from a layer of tanh units (Bahdanau et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__(name="attention")
        self.query = _linear(width, "query")
        self.score = _linear(1, "score")

    def call(self, query: Any, keys: Any, memory: Any, padding: Any = None) -> Any:
        # query: (N, width), keys: projected memory (N, S, width), memory: (N, S, width),
        # padding: (N, S), True for positions of the memory to leave out.
        # Returns the memory's mean (N, width), weighted by how well its keys match the query.
        scores = self.score(tf.tanh(keys + self.query(query)[:, None]))
        if padding is not None:
            scores = tf.where(padding[..., None], scores.dtype.min, scores)
        weights = tf.nn.softmax(tf.transpose(scores, (0, 2, 1)))
        return tf.squeeze(tf.matmul(weights, memory), 1)


class Decoder(layers.Layer):
    """LSTM layers that read a word and the previous attention vector in each step."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__(name="decoder")
        self.embedding = _embedding(d.target_vocabulary, d.width)
        self.cells = [
            layers.LSTMCell(d.width, name=f"cell{n}", **_recurrent()) for n in range(d.layers)
        ]
        self.keys = _linear(d.width, "keys")
        self.attention = AdditiveAttention(d.width)
        self.combine = _linear(d.width, "combine")

    def call(self, words: Any, memory: Any, states: list[State], padding: Any = None) -> Any:
        # words: previous target words (N, T), memory: encoder states (N, S, width), states: last
        # encoder state per layer. Returns attention vectors (N, T, width).
        keys = self.keys(memory)
        states = list(states)
        attended = tf.zeros_like(memory[:, 0])
        vectors = []
        # Input feeding (Luong et al. 2015): the first layer reads the previous attention vector,
        # so no layer can process all steps at once.
        for word in tf.unstack(self.embedding(words), axis=1):
            x = tf.concat([word, attended], 1)
            for layer, cell in enumerate(self.cells):
                x, states[layer] = cell(x, states[layer])
            context = self.attention(x, keys, memory, padding)
            attended = self.combine(tf.concat([x, context], 1))
            vectors.append(attended)
        return tf.stack(vectors, 1)


class Seq2Seq(keras.Model):
    """Encoder, decoder and scores of the target words."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.encoder = Encoder(d)
        self.decoder = Decoder(d)
        self.scores = _linear(d.target_vocabulary, "scores")

    def call(self, source: Any, target: Any, padding: Any = None) -> Any:
        # source, padding: (N, S), target: (N, T); returns word scores (N, T, vocabulary).
        memory, states = self.encoder(source)
        return self.scores(self.decoder(target, memory, states, padding))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    model = Seq2Seq(d)
    return Workload(
        model=model,
        batch=lambda size, rng: translation_batch(
            size, d.length, d.source_vocabulary, rng, d.target_vocabulary
        ),
        turns=one_turn(
            model,
            forward=lambda batch: model(
                batch["source"], batch["target"], batch.get("padding"), training=True
            ),
            loss=lambda scores, batch: cross_entropy(
                scores, batch["label"], padded="padding" in batch
            ),
            optimizer=keras.optimizers.Adam(
                d.learning_rate, epsilon=1e-8, global_clipnorm=d.clip_norm
            ),
        ),
        sized=lambda planned, rng: translations(
            planned, d.source_vocabulary, rng, d.target_vocabulary
        ),
        unrolled=True,
    )
