"""BERT in PyTorch, with the encoder of the package transformers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from tbd_models.bert import Dimensions
from tbd_models.corpus import PlannedBatch
from tbd_models.padded import pad
from tbd_models.pytorch.lamb import Lamb
from tbd_models.pytorch.schedule import scheduled
from tbd_models.pytorch.workload import Batch, Workload, as_tensors, cross_entropy
from tbd_models.synthetic import BEGIN, END, MASK, words

# Devlin et al. 2019, appendix A.2, and the initializer of the published code.
_WEIGHT_DECAY = 0.01
_INITIAL_SCALE = 0.02


class MaskedWords(nn.Module):
    """Masked language model head, which shares its output weights with the embeddings."""

    def __init__(self, d: Dimensions, embeddings: nn.Embedding) -> None:
        super().__init__()
        self.transform = nn.Linear(d.width, d.width)
        self.activation = nn.GELU()
        self.norm = nn.LayerNorm(d.width, eps=1e-12)
        self.scores = nn.Linear(d.width, d.rows)
        nn.init.normal_(self.transform.weight, std=_INITIAL_SCALE)
        nn.init.zeros_(self.transform.bias)
        nn.init.zeros_(self.scores.bias)
        self.scores.weight = embeddings.weight

    def forward(self, hidden: Tensor, positions: Tensor) -> Tensor:
        # hidden: (N, L, width), positions: (N, P); returns (N, P, vocabulary).
        at = positions[..., None].expand(-1, -1, hidden.shape[-1])
        x = self.norm(self.activation(self.transform(hidden.gather(1, at))))
        scores: Tensor = self.scores(x)
        return scores


class PreTraining(nn.Module):
    """BERT with its two pre-training heads: masked words and next sentence."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.bert = _bert(d, pool=True)
        self.masked_words = MaskedWords(d, self.bert.embeddings.word_embeddings)
        self.next_sentence = nn.Linear(d.width, 2)
        nn.init.normal_(self.next_sentence.weight, std=_INITIAL_SCALE)

    def forward(self, tokens: Tensor, segments: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
        # tokens, segments: (N, L), masked: (N, P) positions of masked words.
        # Returns scores of masked words (N, P, vocabulary) and of the next sentence (N, 2).
        output = self.bert(tokens, token_type_ids=segments)
        word_scores = self.masked_words(output.last_hidden_state, masked)
        return word_scores, self.next_sentence(output.pooler_output)


class QuestionAnswering(nn.Module):
    """BERT with a head for the span of the answer to a question (SQuAD)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.bert = _bert(d, pool=False)
        self.span = nn.Linear(d.width, 2)
        nn.init.normal_(self.span.weight, std=_INITIAL_SCALE)

    def forward(self, tokens: Tensor, segments: Tensor, real: Tensor | None = None) -> Tensor:
        # tokens, segments: (N, L), real: (N, L), 0 for padding.
        # Returns scores (N, 2, L) of positions as start and as end.
        output = self.bert(tokens, attention_mask=real, token_type_ids=segments)
        scores: Tensor = self.span(output.last_hidden_state)
        return scores.transpose(1, 2)


def pretraining_batch(size: int, d: Dimensions, rng: np.random.Generator) -> Batch:
    """Return sentence pairs with masked words, as int64 tensors.

    ``tokens`` and ``segments`` are (N, L), ``masked`` (N, P) are positions of masked words,
    ``words`` (N, P) the original words, and ``follows`` (N) is 1 for true next sentences.
    """
    half = d.length // 2
    tokens = torch.from_numpy(words((size, d.length), d.vocabulary, rng))
    follows = torch.from_numpy(rng.integers(2, size=size))
    # A true second sentence repeats the words of the first: that makes both tasks learnable.
    again = tokens[:, 1 : half - 1]
    second = tokens[:, half : half + again.shape[1]]
    second.copy_(torch.where(follows[:, None] == 1, again, second))
    special = torch.tensor([0, half - 1, d.length - 1])
    tokens[:, special] = torch.tensor([BEGIN, END, END])
    order = torch.from_numpy(rng.random((size, d.length)))
    order[:, special] = 2.0  # last, so never masked
    masked = order.argsort(1)[:, : d.predictions].sort(1).values
    originals = tokens.gather(1, masked)
    return {
        "tokens": tokens.scatter(1, masked, MASK),
        "segments": _segments(size, d.length, half),
        "masked": masked,
        "words": originals,
        "follows": follows,
    }


def question_batch(size: int, d: Dimensions, rng: np.random.Generator) -> Batch:
    """Return questions with texts, as int64 tensors.

    ``tokens`` and ``segments`` are (N, L), ``span`` (N, 2) is the first and last position of the
    answer, which the two rarest words of the vocabulary delimit.
    """
    text = d.length // 6
    tokens = torch.from_numpy(words((size, d.length), d.vocabulary - 2, rng))
    tokens[:, [0, text - 1, d.length - 1]] = torch.tensor([BEGIN, END, END])
    # Two different positions of the text, in order.
    room = torch.from_numpy(rng.random((size, d.length - text - 1)))
    span = (room.argsort(1)[:, :2] + text).sort(1).values
    rarest = torch.tensor([d.vocabulary - 2, d.vocabulary - 1]).expand(size, 2)
    return {
        "tokens": tokens.scatter(1, span, rarest),
        "segments": _segments(size, d.length, text),
        "span": span,
    }


def _padded_questions(planned: PlannedBatch, d: Dimensions, rng: np.random.Generator) -> Batch:
    # As question_batch, with padded texts; `real` (N, L) is 0 for padding.
    asked = [
        question_batch(1, replace(d, length=int(length)), rng) for length in planned.sizes[:, 0]
    ]
    batch = {
        name: pad([question[name].numpy() for question in asked], planned.padded)
        for name in ("tokens", "segments")
    }
    real = np.arange(d.length) < planned.sizes
    return {
        **as_tensors(batch),
        "span": torch.cat([question["span"] for question in asked]),
        "real": torch.from_numpy(real.astype(np.int64)),
    }


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return _pretraining(d) if d.predictions else _question_answering(d)


def _pretraining(d: Dimensions) -> Workload:
    return Workload(
        model=PreTraining(d),
        batch=lambda size, rng: pretraining_batch(size, d, rng),
        forward=lambda model, batch: model(batch["tokens"], batch["segments"], batch["masked"]),
        loss=lambda scores, batch: (
            cross_entropy(scores[0], batch["words"]) + cross_entropy(scores[1], batch["follows"])
        ),
        optimizer=lambda parameters: scheduled(Lamb(_groups(parameters), lr=d.rate(1)), d.rate),
        clip_norm=1.0,
    )


def _question_answering(d: Dimensions) -> Workload:
    return Workload(
        model=QuestionAnswering(d),
        batch=lambda size, rng: question_batch(size, d, rng),
        forward=lambda model, batch: model(batch["tokens"], batch["segments"], batch.get("real")),
        sized=lambda planned, rng: _padded_questions(planned, d, rng),
        loss=lambda scores, batch: cross_entropy(scores, batch["span"]),
        optimizer=lambda parameters: scheduled(
            torch.optim.AdamW(_groups(parameters), lr=d.rate(1)), d.rate
        ),
        clip_norm=1.0,
    )


def _bert(d: Dimensions, pool: bool) -> BertModel:
    config = BertConfig(
        vocab_size=d.rows,
        hidden_size=d.width,
        intermediate_size=d.inner_width,
        num_attention_heads=d.heads,
        num_hidden_layers=d.layers,
        max_position_embeddings=d.positions,
        hidden_dropout_prob=d.dropout,
        attention_probs_dropout_prob=d.dropout,
        initializer_range=_INITIAL_SCALE,
    )
    bert = BertModel(config, add_pooling_layer=pool)
    # A fused attention kernel would be counted differently on each device.
    bert.set_attn_implementation("eager")
    return bert


def _groups(parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    # As published, biases and the scales of layer normalization (1 axis) have no weight decay.
    every = list(parameters)
    return [
        {"params": [p for p in every if p.dim() > 1], "weight_decay": _WEIGHT_DECAY},
        {"params": [p for p in every if p.dim() <= 1], "weight_decay": 0.0},
    ]


def _segments(size: int, length: int, second: int) -> Tensor:
    # 0 before position `second`, 1 from there on.
    return (torch.arange(length) >= second).long().repeat(size, 1)
