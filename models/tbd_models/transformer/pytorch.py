"""Transformer in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tbd_models.padded import translations
from tbd_models.pytorch.schedule import scheduled
from tbd_models.pytorch.workload import Workload, as_tensors
from tbd_models.synthetic import translation_batch
from tbd_models.transformer import Dimensions


class MultiHeadAttention(nn.Module):
    """Multi-head attention to a memory, or of a sequence to itself."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.heads = d.heads
        self.query = nn.Linear(d.width, d.width, bias=False)
        self.key = nn.Linear(d.width, d.width, bias=False)
        self.value = nn.Linear(d.width, d.width, bias=False)
        self.dropout = nn.Dropout(d.dropout)
        self.output = nn.Linear(d.width, d.width, bias=False)

    def forward(self, x: Tensor, memory: Tensor, hidden: Tensor | None = None) -> Tensor:
        # x: (N, T, width), memory: (N, S, width), hidden: True for masked positions, in a shape
        # that extends to (N, heads, T, S).
        # Returns for each position of x a weighted mean of the memory (N, T, width).
        query, key = self._split(self.query(x)), self._split(self.key(memory))
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        weights: Tensor = self.dropout(scores.softmax(-1))
        mean = weights @ self._split(self.value(memory))
        output: Tensor = self.output(mean.transpose(1, 2).flatten(2))
        return output

    def _split(self, x: Tensor) -> Tensor:
        # (N, L, width) to (N, heads, L, width / heads).
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Sequential):
    """Two linear layers with a ReLU between them, applied to each position."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__(
            nn.Linear(d.width, d.inner_width),
            nn.ReLU(inplace=True),
            nn.Dropout(d.dropout),
            nn.Linear(d.inner_width, d.width),
        )


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward sublayer."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d.width)
        self.attention = MultiHeadAttention(d)
        self.inner_norm = nn.LayerNorm(d.width)
        self.inner = FeedForward(d)
        self.dropout = nn.Dropout(d.dropout)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        y = self.attention_norm(x)
        x = x + self.dropout(self.attention(y, y, padding))
        change: Tensor = self.dropout(self.inner(self.inner_norm(x)))
        return x + change


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, and a feed-forward sublayer."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.self_norm = nn.LayerNorm(d.width)
        self.self_attention = MultiHeadAttention(d)
        self.source_norm = nn.LayerNorm(d.width)
        self.source_attention = MultiHeadAttention(d)
        self.inner_norm = nn.LayerNorm(d.width)
        self.inner = FeedForward(d)
        self.dropout = nn.Dropout(d.dropout)

    def forward(
        self, x: Tensor, memory: Tensor, hidden: Tensor, padding: Tensor | None = None
    ) -> Tensor:
        # x: (N, T, width), memory: encoder output (N, S, width), hidden: (T, T), True is masked,
        # padding: (N, 1, 1, S), True is padding of the source.
        y = self.self_norm(x)
        x = x + self.dropout(self.self_attention(y, y, hidden))
        x = x + self.dropout(self.source_attention(self.source_norm(x), memory, padding))
        change: Tensor = self.dropout(self.inner(self.inner_norm(x)))
        return x + change


class Embedding(nn.Module):
    """Embeddings of tokens plus sinusoidal embeddings of positions."""

    positions: Tensor

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.tokens = nn.Embedding(d.vocabulary, d.width)
        nn.init.normal_(self.tokens.weight, std=d.width**-0.5)
        self.dropout = nn.Dropout(d.dropout)
        self.register_buffer("positions", _sines(d.length, d.width), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = self.positions[: tokens.shape[1]]
        x = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim) + positions
        embedded: Tensor = self.dropout(x)
        return embedded


class Transformer(nn.Module):
    """Encoder, decoder and scores of the target tokens."""

    later: Tensor

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.embedding = Embedding(d)
        self.encoder = nn.ModuleList(EncoderLayer(d) for _ in range(d.layers))
        self.encoder_norm = nn.LayerNorm(d.width)
        self.decoder = nn.ModuleList(DecoderLayer(d) for _ in range(d.layers))
        self.decoder_norm = nn.LayerNorm(d.width)
        self.scores = nn.Linear(d.width, d.vocabulary, bias=False)
        self.scores.weight = self.embedding.tokens.weight
        later = torch.ones(d.length, d.length, dtype=torch.bool).triu(1)
        self.register_buffer("later", later, persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2 and not name.startswith("embedding"):
                nn.init.xavier_uniform_(weight)

    def forward(self, source: Tensor, target: Tensor, padding: Tensor | None = None) -> Tensor:
        # source, padding: (N, S), target: (N, T); returns token scores (N, T, vocabulary).
        if padding is not None:
            padding = padding[:, None, None]
        memory = self.embedding(source)
        for layer in self.encoder:
            memory = layer(memory, padding)
        memory = self.encoder_norm(memory)
        x = self.embedding(target)
        later = self.later[: target.shape[1], : target.shape[1]]
        for layer in self.decoder:
            x = layer(x, memory, later, padding)
        scores: Tensor = self.scores(self.decoder_norm(x))
        return scores


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return Workload(
        model=Transformer(d),
        batch=lambda size, rng: as_tensors(translation_batch(size, d.length, d.vocabulary, rng)),
        forward=lambda model, batch: model(batch["source"], batch["target"], batch.get("padding")),
        loss=lambda scores, batch: nn.functional.cross_entropy(
            scores.flatten(0, 1).float(),
            batch["label"].flatten(),
            label_smoothing=d.label_smoothing,
        ),
        optimizer=lambda parameters: _adam(parameters, d),
        sized=lambda planned, rng: as_tensors(translations(planned, d.vocabulary, rng)),
    )


def _adam(parameters: Iterable[nn.Parameter], d: Dimensions) -> torch.optim.Optimizer:
    adam = torch.optim.Adam(parameters, lr=d.rate(1), betas=(0.9, 0.98), eps=1e-9)
    return scheduled(adam, d.rate)


def _sines(length: int, width: int) -> Tensor:
    # As in Tensor2Tensor: sines, then cosines, of wavelengths from 2 pi to 10000 * 2 pi.
    steps = torch.arange(width // 2) / (width // 2 - 1)
    angles = torch.arange(length)[:, None] * torch.exp(-math.log(10000) * steps)
    return torch.cat([angles.sin(), angles.cos()], 1)
