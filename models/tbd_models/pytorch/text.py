"""Synthetic text that can be learnt."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# The first entries of every vocabulary; words come after them.
PADDING, BEGIN, END, MASK = range(4)
FIRST_WORD = 4


def words(shape: tuple[int, ...], vocabulary: int, generator: torch.Generator) -> Tensor:
    """Return words in int64, as frequent as Zipf's law has it.

    As in real text a few words are most of the text, and so a few rows of an embedding get most of
    its gradient.

    Args:
        shape: of what is returned.
        vocabulary: entries of the vocabulary, special ones included.
        generator: source of randomness.
    """
    # The logarithm is uniform, so the probability of rank r is log(1 + 1/r): nearly 1/r.
    ranks = torch.exp(
        torch.rand(shape, generator=generator) * math.log(vocabulary - FIRST_WORD + 1)
    )
    return (ranks.long() + FIRST_WORD - 1).clamp_(max=vocabulary - 1)


def translation_batch(
    size: int, length: int, vocabulary: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return sentence pairs; the translation of a sentence is the sentence reversed.

    Returns:
        ``source``, ``target`` (what the decoder is given: the translation one word late) and
        ``label`` (the translation), each of shape (N, length) in int64.
    """
    source = words((size, length), vocabulary, generator)
    label = source.flip(1)
    begin = torch.full((size, 1), BEGIN)
    return {"source": source, "target": torch.cat([begin, label[:, :-1]], 1), "label": label}
