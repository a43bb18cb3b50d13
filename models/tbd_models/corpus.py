"""Plan batches of samples whose sizes vary as in a data set.

A histogram of the data set gives the sizes, a model's ``corpus`` function the way in which the
original makes batches of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbd_models.definition import UnsupportedError
from tbd_models.histogram import Histogram, read_histogram

HISTOGRAMS = Path(__file__).parent / "histograms"
# Enough batches that mean and spread of their work are those of the data set within 1 %.
_PLANNED = 20_000
# Batches that are made, and trained in turn: they stay in memory.
_MADE = 32

Sizes = NDArray[np.int64]  # of N samples, each with one axis or more


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Sizes of the samples of a batch, and the size to which all are padded."""

    sizes: Sizes  # (N, axes)
    padded: tuple[int, ...]  # (axes)

    @property
    def real(self) -> int:
        """Units without padding, such as tokens or pixels."""
        return int(self.sizes.prod(1).sum())

    @property
    def work(self) -> int:
        """Units with padding, which the model computes."""
        return len(self.sizes) * int(np.prod(self.padded))


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Sizes of a data set's samples, and how the original makes batches of them."""

    histogram: str  # file in `histograms`
    unit: str  # of real units, such as words
    policy: str  # sequence_policy of capture.json
    # From lengths in order of the data set and a batch size to batches.
    batches: Callable[[Sizes, int, np.random.Generator], list[PlannedBatch]]
    longest: int  # length that the largest batch takes, before `scale`
    scale: float = 1.0  # from lengths of the histogram to those of a small model
    shortest: int = 1  # length that the model needs
    units_per_length: float = 1.0  # from units of sizes to `unit`
    dimensions: Any = None  # of a model for the longest length; None: the usual ones


@dataclass(frozen=True, slots=True)
class Plan:
    """The batches of a run, from the step number on, and figures of the data set."""

    corpus: Corpus
    histogram: str  # name
    made: tuple[PlannedBatch, ...]
    padding_pct: float  # of many batches
    work_variation_pct: float  # standard deviation of the work of many batches, % of the mean

    def batch(self, step: int) -> PlannedBatch:
        """Return the batch of a step."""
        return self.made[step % len(self.made)]

    def work(self, step: int) -> int:
        """Return the units of a step with padding."""
        return self.batch(step).work

    @property
    def is_uniform(self) -> bool:
        """Return True if all batches have the same shape."""
        return len(self.first_steps_of_shapes()) == 1

    def first_steps_of_shapes(self) -> list[int]:
        """Return for each shape of a batch the first step that trains it."""
        shapes: dict[tuple[int, ...], int] = {}
        for step, batch in enumerate(self.made):
            shapes.setdefault((len(batch.sizes), *batch.padded), step)
        return list(shapes.values())

    def facts(self, steps: Iterable[int]) -> dict[str, Any]:
        """Return what a run of these steps reports."""
        trained = [self.batch(step) for step in steps]
        real, work = (sum(getattr(b, what) for b in trained) for what in ("real", "work"))
        return {
            "histogram": self.histogram,
            "sequence_policy": self.corpus.policy,
            "unit": self.corpus.unit,
            "samples": sum(len(batch.sizes) for batch in trained),
            "real_units": real * self.corpus.units_per_length,
            "padding_pct": 100 * (1 - real / work),
            "work": [batch.work for batch in trained],
            "corpus_padding_pct": self.padding_pct,
            "corpus_work_variation_pct": self.work_variation_pct,
        }


def planned(corpus: Corpus, histogram: Path | None, batch_size: int, seed: int) -> Plan:
    """Plan the batches of a run.

    Args:
        corpus: the data set.
        histogram: CSV file in place of the data set's.
        batch_size: samples per batch, as without lengths.
        seed: of the lengths and their order.

    Raises:
        UnsupportedError: the histogram is invalid, or has lengths that no batch takes.
    """
    path = histogram or HISTOGRAMS / f"{corpus.histogram}.csv"
    frequencies = read_histogram(path)
    if frequencies.longest > corpus.longest:
        raise UnsupportedError(
            f"{path}: lengths up to {frequencies.longest} are beyond the largest bucket of "
            f"{corpus.longest}; leave longer samples out of the histogram"
        )
    rng = np.random.default_rng(seed)
    lengths = _drawn(frequencies, batch_size * _PLANNED, corpus, rng)
    batches = corpus.batches(lengths, batch_size, rng)
    work = np.array([batch.work for batch in batches])
    real = np.array([batch.real for batch in batches])
    chosen = rng.permutation(len(batches))[:_MADE]
    return Plan(
        corpus=corpus,
        histogram=path.stem,
        made=tuple(batches[number] for number in chosen),
        padding_pct=float(100 * (1 - real.sum() / work.sum())),
        work_variation_pct=float(100 * work.std() / work.mean()),
    )


def _drawn(
    histogram: Histogram, count: int, corpus: Corpus, rng: np.random.Generator
) -> NDArray[np.int64]:
    lengths = np.rint(histogram.draw(count, rng) * corpus.scale).astype(np.int64)
    return np.maximum(lengths, corpus.shortest)


def in_buckets(
    lengths: Sizes, longest_of_buckets: Sequence[int], sizes: Sequence[int]
) -> list[PlannedBatch]:
    """Put samples of similar length in a batch, and pad them to the longest one.

    A sample belongs to the first bucket whose longest sample is not shorter. The batch of a bucket
    is complete with the number of samples in ``sizes``. Incomplete batches are left out.
    """
    bucket = np.searchsorted(longest_of_buckets, lengths)
    complete: list[tuple[int, PlannedBatch]] = []
    for number, size in enumerate(sizes):
        complete += [
            (int(rows[-1]), to_longest(lengths[rows][:, None]))
            for rows in complete_batches(np.flatnonzero(bucket == number), size)
        ]
    return [batch for _, batch in sorted(complete, key=lambda entry: entry[0])]


def by_duration(lengths: Sizes, batch_size: int, rng: np.random.Generator) -> list[PlannedBatch]:
    """Make batches of samples in order of length, and shuffle the batches."""
    rows = rng.permutation(complete_batches(np.sort(lengths), batch_size))
    return [to_longest(row[:, None]) for row in rows]


def in_order(sizes: Sizes, batch_size: int, padded: tuple[int, ...]) -> list[PlannedBatch]:
    """Make batches in the order of the data set, all padded to the same size."""
    return [
        PlannedBatch(sizes[rows], padded)
        for rows in complete_batches(np.arange(len(sizes)), batch_size)
    ]


def complete_batches(samples: Sizes, batch_size: int) -> Sizes:
    """Divide samples in order among batches (batches, size); the rest of them is left out."""
    count = len(samples) // batch_size
    return samples[: count * batch_size].reshape(count, batch_size)


def to_longest(sizes: Sizes, multiple: int = 1) -> PlannedBatch:
    """Pad samples (N, axes) to the largest in each axis, rounded up to a multiple."""
    return PlannedBatch(sizes, tuple(-(-int(size) // multiple) * multiple for size in sizes.max(0)))
