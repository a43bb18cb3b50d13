"""Read a histogram of the lengths of a data set's samples."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tbd_models.definition import UnsupportedError

_COLUMNS = ["first", "last", "count"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of samples in ranges of whole lengths; within a range all are equally frequent."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    share: NDArray[np.float64]  # sums to 1

    @property
    def longest(self) -> int:
        """Return the longest length that occurs."""
        return int(self.last[self.share > 0].max())

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw lengths."""
        row = rng.choice(len(self.share), count, p=self.share)
        return rng.integers(self.first[row], self.last[row] + 1)


def read_histogram(path: Path) -> Histogram:
    """Read a CSV file with the columns ``first``, ``last`` and ``count``.

    Ranges include both ends and follow one another. Lines that begin with # are left out. Raises
    UnsupportedError for another content, which names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnsupportedError(f"{path}: no readable histogram ({error})") from None
    lines = [
        (number, next(csv.reader([line])))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    if len(lines) < 2 or lines[0][1] != _COLUMNS:
        raise UnsupportedError(
            f"{path}: a histogram has the columns {','.join(_COLUMNS)}, and rows"
        )
    rows: list[tuple[int, int, float]] = []
    for number, cells in lines[1:]:
        try:
            rows.append(_row(cells, rows))
        except ValueError as error:
            raise UnsupportedError(f"{path}, line {number}: {error}") from None
    total = sum(count for *_, count in rows)
    if total == 0:
        raise UnsupportedError(f"{path}: all counts are 0")
    first, last, count = (np.array(column) for column in zip(*rows, strict=True))
    return Histogram(first, last, count / total)


def _row(cells: list[str], before: list[tuple[int, int, float]]) -> tuple[int, int, float]:
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"has {len(cells)} cells in place of {len(_COLUMNS)}")
    first, last, count = int(cells[0]), int(cells[1]), float(cells[2])
    if not 1 <= first <= last:
        raise ValueError(f"the range {first} to {last} is invalid; lengths begin at 1")
    if not 0 <= count < float("inf"):
        raise ValueError(f"the count {cells[2]} is invalid; counts begin at 0")
    if before and first != before[-1][1] + 1:
        raise ValueError(f"{first} does not follow {before[-1][1]}; ranges follow one another")
    return first, last, count
