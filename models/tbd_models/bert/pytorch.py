"""BERT in PyTorch, its encoder by the package transformers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from tbd_models.bert import Dimensions
from tbd_models.pytorch.lamb import Lamb
from tbd_models.pytorch.schedule import scheduled
from tbd_models.pytorch.workload import Batch, Workload, cross_entropy
from tbd_models.synthetic import BEGIN, END, MASK, words

_WEIGHT_DECAY = 0.01
_INITIAL_SCALE = 0.02


class MaskedWords(nn.Module):
    """Tells the masked words, with the embeddings of the encoder."""

    def __init__(self, d: Dimensions, embeddings: nn.Embedding) -> None:
        super().__init__()
        self.transform = nn.Linear(d.width, d.width)
        self.activation = nn.GELU()
        self.norm = nn.LayerNorm(d.width, eps=1e-12)
        self.scores = nn.Linear(d.width, d.vocabulary)
        nn.init.normal_(self.transform.weight, std=_INITIAL_SCALE)
        nn.init.zeros_(self.transform.bias)
        nn.init.zeros_(self.scores.bias)
        self.scores.weight = embeddings.weight

    def forward(self, hidden: Tensor, positions: Tensor) -> Tensor:
        """Return word scores of shape (N, P, vocabulary).

        Args:
            hidden: (N, L, width), what the encoder put out.
            positions: (N, P), where words are masked.
        """
        at = positions[..., None].expand(-1, -1, hidden.shape[-1])
        x = self.norm(self.activation(self.transform(hidden.gather(1, at))))
        scores: Tensor = self.scores(x)
        return scores


class PreTraining(nn.Module):
    """BERT that tells masked words and whether the second sentence follows the first."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.bert = _bert(d, pool=True)
        self.masked_words = MaskedWords(d, self.bert.embeddings.word_embeddings)
        self.next_sentence = nn.Linear(d.width, 2)
        nn.init.normal_(self.next_sentence.weight, std=_INITIAL_SCALE)

    def forward(self, tokens: Tensor, segments: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of masked words (N, P, vocabulary) and of the second sentence (N, 2).

        Args:
            tokens: (N, L).
            segments: (N, L), 0 in the first sentence and 1 in the second.
            masked: (N, P), positions of masked words.
        """
        output = self.bert(tokens, token_type_ids=segments)
        word_scores = self.masked_words(output.last_hidden_state, masked)
        return word_scores, self.next_sentence(output.pooler_output)


class QuestionAnswering(nn.Module):
    """BERT that tells where in a text the answer to a question begins and ends."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.bert = _bert(d, pool=False)
        self.span = nn.Linear(d.width, 2)
        nn.init.normal_(self.span.weight, std=_INITIAL_SCALE)

    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        """Return scores (N, 2, L) of all positions as begin and as end of the answer.

        Args:
            tokens: (N, L).
            segments: (N, L), 0 in the question and 1 in the text.
        """
        scores: Tensor = self.span(self.bert(tokens, token_type_ids=segments).last_hidden_state)
        return scores.transpose(1, 2)


def pretraining_batch(size: int, d: Dimensions, rng: np.random.Generator) -> Batch:
    """Return two sentences per sequence, with words masked.

    A second sentence that follows the first repeats its words, which tells the two kinds apart and
    what most masked words were.

    Returns:
        ``tokens`` and ``segments`` (N, L), ``masked`` and ``words`` (N, P), the positions of masked
        words and the words, and ``follows`` (N), 1 where the second sentence follows; all int64.
    """
    half = d.length // 2
    tokens = torch.from_numpy(words((size, d.length), d.vocabulary, rng))
    follows = torch.from_numpy(rng.integers(2, size=size))
    again = tokens[:, 1 : half - 1]
    second = tokens[:, half : half + again.shape[1]]
    second.copy_(torch.where(follows[:, None] == 1, again, second))
    special = torch.tensor([0, half - 1, d.length - 1])
    tokens[:, special] = torch.tensor([BEGIN, END, END])
    order = torch.from_numpy(rng.random((size, d.length)))
    order[:, special] = 2.0  # last, so never masked
    masked = order.argsort(1)[:, : d.predictions].sort(1).values
    told = tokens.gather(1, masked)
    return {
        "tokens": tokens.scatter(1, masked, MASK),
        "segments": _segments(size, d.length, half),
        "masked": masked,
        "words": told,
        "follows": follows,
    }


def question_batch(size: int, d: Dimensions, rng: np.random.Generator) -> Batch:
    """Return a question and a text per sequence; the answer lies between the two rarest words.

    Returns:
        ``tokens`` and ``segments`` (N, L), and ``span`` (N, 2), positions of the answer's begin and
        end; all int64.
    """
    text = d.length // 6
    tokens = torch.from_numpy(words((size, d.length), d.vocabulary - 2, rng))
    tokens[:, [0, text - 1, d.length - 1]] = torch.tensor([BEGIN, END, END])
    room = torch.from_numpy(rng.random((size, d.length - text - 1)))
    span = (room.argsort(1)[:, :2] + text).sort(1).values
    rarest = torch.tensor([d.vocabulary - 2, d.vocabulary - 1]).expand(size, 2)
    return {
        "tokens": tokens.scatter(1, span, rarest),
        "segments": _segments(size, d.length, text),
        "span": span,
    }


def workload(d: Dimensions) -> Workload:
    """Return the workload of these dimensions."""
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
        forward=lambda model, batch: model(batch["tokens"], batch["segments"]),
        loss=lambda scores, batch: cross_entropy(scores, batch["span"]),
        optimizer=lambda parameters: scheduled(
            torch.optim.AdamW(_groups(parameters), lr=d.rate(1)), d.rate
        ),
        clip_norm=1.0,
    )


def _bert(d: Dimensions, pool: bool) -> BertModel:
    config = BertConfig(
        vocab_size=d.vocabulary,
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
    # Matrix products that are counted alike on every device, rather than a fused kernel.
    bert.set_attn_implementation("eager")
    return bert


def _groups(parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    """Return groups with and without weight decay; biases and scales do not decay."""
    every = list(parameters)
    return [
        {"params": [p for p in every if p.dim() > 1], "weight_decay": _WEIGHT_DECAY},
        {"params": [p for p in every if p.dim() <= 1], "weight_decay": 0.0},
    ]


def _segments(size: int, length: int, second: int) -> Tensor:
    """Return 0 before and 1 from position ``second`` on, of shape (N, L)."""
    return (torch.arange(length) >= second).long().repeat(size, 1)
