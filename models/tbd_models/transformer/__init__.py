"""Transformer: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from tbd_models.corpus import Corpus, in_buckets
from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of a Transformer for translation."""

    vocabulary: int = 33708  # subwords, shared by source and target
    length: int = 32  # tokens of a source sentence, and of a target sentence
    width: int = 512  # units of embeddings and sublayer outputs
    inner_width: int = 2048  # units inside the feed-forward sublayers
    heads: int = 8
    layers: int = 6  # of the encoder, and of the decoder
    dropout: float = 0.1  # of sublayers, attention weights and inner units
    label_smoothing: float = 0.1  # probability spread evenly over all subwords
    learning_rate: float = 1.0  # factor of the schedule
    warmup_steps: int = 16000  # steps of rising learning rate

    def rate(self, step: int) -> float:
        """Return the learning rate: a linear rise, then inverse square root (section 5.3)."""
        shape = min(step**-0.5, step * self.warmup_steps**-1.5)
        return float(self.learning_rate * self.width**-0.5 * shape)


MODEL = Model(
    name="transformer",
    title="Transformer",
    application="machine translation",
    frameworks=("pytorch", "tensorflow", "mxnet"),
    layers="12",
    dominant_layer="Attention",
    dominant_types=("MultiHeadAttention",),
    batch_definition="pairs of sentences of 32 tokens each",
    throughput_unit="sentences/s",
    variants=(
        Variant(
            name="base",
            dimensions=Dimensions(),
            small=Dimensions(
                vocabulary=64,
                length=8,
                width=32,
                inner_width=64,
                heads=4,
                layers=2,
                learning_rate=0.3,
                warmup_steps=10,
            ),
            dataset="WMT14 English-German",
            default_batch_size=64,
            sweep=(2, 8, 32, 64, 128),
            optimizer="adam",
            parameters=61_362_176,
            forward_flop=3_960_864_768,
            training_flop=11_882_594_304,
            source="Vaswani et al. 2017, arXiv:1706.03762; Tensor2Tensor, preset "
            "transformer_base_single_gpu",
        ),
    ),
    notes=(
        "A batch of 64 pairs is the published one of 2048 tokens, and the batches of the sweep are "
        "those of 64 to 4096 tokens, counted on the target side. All sentences have 32 tokens, so "
        "that every iteration does the same work without padding; the original puts "
        "sentences of similar length in a batch. As in Tensor2Tensor, sublayers normalise their "
        "input rather than their output, and source, "
        "target and output share one matrix of embeddings. Attention is computed from matrix "
        "products and a softmax as in the original, not by a fused kernel, so that every device "
        "performs and counts the same operations. The suite's publication trained on IWSLT15, its "
        "code on WMT. The suite's attention layers include feed-forward sublayers, which have more "
        "operations."
    ),
)


# Longest sentence that Tensor2Tensor trains on, in subwords.
LONGEST = 256


def corpus(d: Dimensions) -> Corpus:
    """Return sentences in batches of as many tokens as a batch of equal lengths has.

    As in Tensor2Tensor, the longest sentences of the buckets grow by 10 % from 8 tokens on.
    """
    scale = d.length / MODEL.variants[0].dimensions.length
    bounds = [8]
    while bounds[-1] < LONGEST:
        bounds.append(min(max(bounds[-1] + 1, int(bounds[-1] * 1.1)), LONGEST))
    # Small dimensions give several buckets the same longest sentence.
    longest_of_buckets = sorted({ceil(bound * scale) for bound in bounds})
    return Corpus(
        histogram="wmt14",
        unit="tokens",
        policy="bucketed",
        batches=lambda lengths, size, _: in_buckets(
            lengths,
            longest_of_buckets,
            [max(1, size * d.length // longest) for longest in longest_of_buckets],
        ),
        longest=LONGEST,
        dimensions=replace(d, length=ceil(LONGEST * scale)),
        scale=scale,
    )
