"""Parts of a table's rows, which several processes read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowRange:
    """One of the consecutive ranges of a table's rows; later ranges are smaller."""

    number: int  # index, from 0
    count: int  # number of ranges
