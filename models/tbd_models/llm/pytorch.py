"""Decoder language model in PyTorch, with the Llama of the package transformers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

from tbd_models.llm import Dimensions
from tbd_models.pytorch.schedule import scheduled
from tbd_models.pytorch.workload import Workload, as_tensors, cross_entropy
from tbd_models.synthetic import text_batch

# Touvron et al. 2023, arXiv:2307.09288, section 2.2; MobileLLM and Llama 3 say less.
_BETAS = (0.9, 0.95)
_WEIGHT_DECAY = 0.1
_CLIP_NORM = 1.0

_ATTENTION = "tbd_causal"


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return Workload(
        model=_llama(d),
        batch=lambda size, rng: as_tensors(text_batch(size, d.length, d.vocabulary, rng)),
        forward=lambda model, batch: model(batch["tokens"][:, :-1]).logits,
        loss=lambda scores, batch: cross_entropy(scores, batch["tokens"][:, 1:]),
        optimizer=lambda parameters: _adamw(parameters, d),
        clip_norm=_CLIP_NORM,
        prefers_bf16=True,
        checkpoint=_checkpoint,
    )


def _llama(d: Dimensions) -> nn.Module:
    AttentionInterface.register(_ATTENTION, _causal_attention)
    config = LlamaConfig(
        vocab_size=d.vocabulary,
        hidden_size=d.width,
        intermediate_size=d.inner_width,
        num_attention_heads=d.heads,
        num_key_value_heads=d.kv_heads,
        num_hidden_layers=d.layers,
        max_position_embeddings=d.length,
        rope_parameters={"rope_type": "default", "rope_theta": d.rotary_base},
        rms_norm_eps=d.epsilon,
        tie_word_embeddings=d.tied,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    model.set_attn_implementation(_ATTENTION)
    return model


def _causal_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, _mask: None, **options: Any
) -> tuple[Tensor, None]:
    # The package's own function for "sdpa" first searches the positions for packed sequences,
    # which waits for the GPU and fails with fake tensors. query: (N, heads, L, width / heads);
    # key and value have fewer heads. Returns (N, L, heads, width / heads).
    groups = module.num_key_value_groups
    if groups > 1:
        key, value = (tensor.repeat_interleave(groups, 1) for tensor in (key, value))
    mixed = scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=options.get("scaling")
    )
    return mixed.transpose(1, 2), None


def _adamw(parameters: Iterable[nn.Parameter], d: Dimensions) -> torch.optim.Optimizer:
    # The scales of the normalization (1 axis) have no weight decay.
    every = list(parameters)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in every if p.dim() > 1], "weight_decay": _WEIGHT_DECAY},
        {"params": [p for p in every if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return scheduled(torch.optim.AdamW(groups, lr=d.rate(1), betas=_BETAS), d.rate)


def _checkpoint(model: Any) -> None:
    # Each decoder layer keeps only its input.
    model.activation_checkpointing_enable({"use_reentrant": False})
