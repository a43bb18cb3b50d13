"""Rows of a short answer, for those that can do without polars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rows:
    """A few rows of numbers, truth values and texts, as Python has them.

    Attributes:
        columns: names of the columns.
        values: the rows, None for NULL.
    """

    columns: list[str]
    values: list[tuple[Any, ...]]

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.values)
