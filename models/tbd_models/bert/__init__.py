"""BERT: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tbd_models.corpus import Corpus, in_order
from tbd_models.definition import Model, UnsupportedError, Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """Dimensions of BERT and of its task."""

    length: int  # tokens per sequence
    predictions: int  # masked tokens to predict per sequence; 0 for question answering
    learning_rate: float  # after warm-up
    warmup_steps: int = 1  # steps of rising learning rate
    vocabulary: int = 30522
    width: int = 1024  # hidden size
    inner_width: int = 4096  # units inside the feed-forward sublayers
    heads: int = 16
    layers: int = 24
    positions: int = 512  # maximum sequence length
    dropout: float = 0.1  # of sublayers and attention weights

    @property
    def rows(self) -> int:
        """Return the rows of the embeddings: for pre-training a multiple of 8 (tensor cores)."""
        return -(-self.vocabulary // 8) * 8 if self.predictions else self.vocabulary

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: a linear rise, then constant."""
        return self.learning_rate * min(1.0, step / self.warmup_steps)


def _small(predictions: int, learning_rate: float) -> Dimensions:
    return Dimensions(
        length=32,
        predictions=predictions,
        learning_rate=learning_rate,
        vocabulary=64,
        width=32,
        inner_width=64,
        heads=4,
        layers=2,
        positions=32,
    )


_PRETRAINING: dict[str, Any] = {
    "dataset": "Wikipedia and BookCorpus",
    "optimizer": "lamb",
    "parameters": 336_232_258,
    "small": _small(4, 5e-2),
    "source": "Devlin et al. 2019, arXiv:1810.04805; LAMB: You et al. 2020, arXiv:1904.00962",
}

MODEL = Model(
    name="bert",
    title="BERT-large",
    application="language modelling",
    frameworks=("pytorch",),
    packages={"pytorch": ("transformers",)},
    layers="24",
    dominant_layer="Attention",
    dominant_types=("BertSelfAttention",),
    batch_definition="sequences",
    throughput_unit="sequences/s",
    variants=(
        Variant(
            name="pretraining-128",
            dimensions=Dimensions(
                length=128, predictions=20, learning_rate=6e-3, warmup_steps=2000
            ),
            default_batch_size=8,
            sweep=(1, 2, 4, 8, 15, 32, 64),
            forward_flop=80_214_495_232,
            training_flop=240_643_485_696,
            **_PRETRAINING,
        ),
        Variant(
            name="pretraining-512",
            dimensions=Dimensions(length=512, predictions=80, learning_rate=4e-3, warmup_steps=200),
            default_batch_size=4,
            sweep=(1, 2, 4, 8, 15),
            forward_flop=340_179_030_016,
            training_flop=1_020_537_090_048,
            **_PRETRAINING,
        ),
        Variant(
            name="squad",
            dimensions=Dimensions(length=384, predictions=0, learning_rate=3e-5),
            small=_small(0, 1e-2),
            dataset="SQuAD 1.1",
            default_batch_size=4,
            sweep=(4, 10),
            optimizer="adamw",
            parameters=334_094_338,
            forward_flop=246_425_321_472,
            training_flop=739_275_964_416,
            source="Devlin et al. 2019, arXiv:1810.04805",
        ),
    ),
    notes=(
        "All sequences are full, so nothing is padded. For pre-training, the vocabulary of "
        "30,522 is padded to a multiple of 8, as in the suite. Scores are computed only for "
        "the masked tokens. Attention is computed from matrix products and a softmax as in the "
        "original, not by a fused kernel, so that every device performs and counts the same "
        "operations. After warm-up the learning rate is constant, where the publications decrease "
        "it. The suite's attention layers include feed-forward sublayers, which have more "
        "operations."
    ),
)


def corpus(d: Dimensions) -> Corpus:
    """Return questions with texts, padded to the length of a sequence as in the published code."""
    if d.predictions:
        raise UnsupportedError(
            "sequences of pre-training are full; --lengths is for --variant squad"
        )
    return Corpus(
        histogram="squad",
        unit="tokens",
        policy="padded",
        batches=lambda lengths, size, _: in_order(lengths[:, None], size, (d.length,)),
        longest=384,
        scale=d.length / 384,
        shortest=8,
    )
