"""Seq2Seq (NMT): dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tbd_models.corpus import Corpus, in_buckets
from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of a recurrent encoder and decoder with additive attention."""

    source_vocabulary: int = 17191  # of IWSLT15, with three special entries
    target_vocabulary: int = 7709
    length: int = 25  # words of a source sentence, and of a target sentence
    width: int = 512  # units of embeddings, LSTM layers and attention
    layers: int = 2  # LSTM layers of the encoder, and of the decoder
    learning_rate: float = 3e-4  # of Adam
    clip_norm: float = 1.0  # maximum global norm of the gradients


MODEL = Model(
    name="seq2seq",
    title="Seq2Seq (NMT)",
    application="machine translation",
    frameworks=("pytorch", "tensorflow", "mxnet"),
    layers="5",
    dominant_layer="LSTM",
    dominant_types=("LSTM", "LSTMCell"),
    batch_definition="pairs of sentences of 25 words each",
    throughput_unit="sentences/s",
    variants=(
        Variant(
            name="nmt",
            dimensions=Dimensions(),
            small=Dimensions(
                source_vocabulary=64,
                target_vocabulary=48,
                length=5,
                width=32,
                learning_rate=1e-2,
            ),
            dataset="IWSLT15 English-Vietnamese",
            default_batch_size=128,
            sweep=(4, 8, 16, 32, 64, 128),
            optimizer="adam",
            parameters=27_198_464,
            differing_parameters={"tensorflow": 27_190_272},
            forward_flop=722_918_400,
            training_flop=2_168_755_200,
            source="Luong et al. 2017, the TensorFlow NMT tutorial; attention of arXiv:1409.0473",
        ),
    ),
    notes=(
        "All sentences have 25 words, so that every iteration does the same work and nothing is "
        "padded; the original batches sentences of up to 100 words in buckets of similar length. "
        "Dropout is left out, as in the configuration that was profiled. "
        "The number of parameters is that of PyTorch and MXNet, whose LSTM has two vectors of "
        "biases per layer (8,192 parameters more than TensorFlow's, which has one). The MXNet "
        "model of the suite was Sockeye, with the same layers."
    ),
)


def corpus(d: Dimensions) -> Corpus:
    """Return sentences of up to 100 words in ten buckets, as in the TensorFlow NMT tutorial."""
    scale = d.length / MODEL.variants[0].dimensions.length
    longest_of_buckets = [ceil(words * scale) for words in range(10, 101, 10)]
    return Corpus(
        histogram="iwslt15",
        unit="words",
        policy="bucketed",
        batches=lambda lengths, size, _: in_buckets(lengths, longest_of_buckets, [size] * 10),
        longest=100,
        scale=scale,
    )
