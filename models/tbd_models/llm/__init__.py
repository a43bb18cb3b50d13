"""Decoder language model: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_models.definition import Model, Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """Dimensions of a language model of Llama's architecture."""

    length: int  # tokens per sequence
    vocabulary: int
    width: int  # hidden size
    inner_width: int  # units inside the gated feed-forward sublayers
    heads: int  # of queries
    kv_heads: int  # of keys and values, each for an equal group of query heads
    layers: int
    tied: bool = True  # output and input share one matrix of embeddings
    rotary_base: float = 10_000.0  # of the wavelengths of rotary positions
    epsilon: float = 1e-5  # of the normalization
    learning_rate: float = 3e-4  # after warm-up
    warmup_steps: int = 2000  # steps of rising learning rate

    @property
    def units_per_sample(self) -> int:
        """Return the tokens of a sequence, the unit of throughput."""
        return self.length

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: a linear rise, then constant."""
        return self.learning_rate * min(1.0, step / self.warmup_steps)


_SMALL = Dimensions(
    length=32,
    vocabulary=64,
    width=32,
    inner_width=64,
    heads=4,
    kv_heads=2,
    layers=2,
    learning_rate=1e-2,
    warmup_steps=1,
)

MODEL = Model(
    name="llm",
    title="Decoder language model (Llama)",
    application="language modelling",
    frameworks=("pytorch",),
    packages={"pytorch": ("transformers",)},
    in_suite=False,
    layers="n/a",
    dominant_layer="n/a",
    dominant_types=("LlamaMLP", "LlamaAttention"),
    batch_definition="sequences",
    throughput_unit="tokens/s",
    variants=(
        Variant(
            name="125m",
            dimensions=Dimensions(
                length=2048,
                vocabulary=32_000,
                width=576,
                inner_width=1536,
                heads=9,
                kv_heads=3,
                layers=30,
                learning_rate=2e-3,
            ),
            small=_SMALL,
            dataset="tokens of web text",
            default_batch_size=8,
            sweep=(1, 2, 4, 8, 16, 32),
            optimizer="adamw",
            parameters=124_635_456,
            forward_flop=655_318_056_960,
            training_flop=1_965_954_170_880,
            source="MobileLLM-125M: Liu et al. 2024, arXiv:2402.14905",
        ),
        Variant(
            name="1b",
            dimensions=Dimensions(
                length=2048,
                vocabulary=128_256,
                width=2048,
                inner_width=8192,
                heads=32,
                kv_heads=8,
                layers=16,
                rotary_base=500_000.0,
            ),
            small=_SMALL,
            dataset="tokens of web text",
            default_batch_size=2,
            sweep=(1, 2, 4, 8, 16),
            optimizer="adamw",
            parameters=1_235_814_400,
            forward_flop=5_336_496_865_280,
            training_flop=16_009_490_595_840,
            source="Llama 3.2 1B (its model card); Grattafiori et al. 2024, arXiv:2407.21783",
        ),
    ),
    notes=(
        "All sequences are full, so nothing is padded. Attention is PyTorch's fused kernel "
        "(scaled_dot_product_attention); its FLOP are half of those of full attention, because "
        "position i attends to i of n positions. FLOP include the scores of the vocabulary and "
        "leave out the look-up of embeddings: per token, training has 6 FLOP per parameter of the "
        "matrix products and 6 x layers x width x length for attention. Keys and values are "
        "repeated for each query head, as in Llama's published code, so that all fused kernels "
        "take them. The optimizer is AdamW with betas 0.9 and 0.95 and weight decay 0.1; after "
        "warm-up the learning rate is constant, where the publications decrease it. Mixed "
        "precision is BF16 without loss scaling on GPUs that have it. --gradient-accumulation "
        "divides the batch of an optimizer step among several passes; "
        "--activation-checkpointing keeps only the input of each decoder layer."
    ),
)
