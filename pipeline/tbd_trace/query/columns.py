"""The columns of a query file: what each means, and its unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tbd_trace.errors import UsageError


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the answer: its unit (None: no unit) and meaning."""

    doc: str
    unit: str | None = None


UNIT_OF_ENDING = {
    "_ns": "ns",
    "_pct": "%",
    "_bytes": "byte",
    "_bytes_per_s": "byte/s",
    "_flop": "FLOP",
    "_flops": "FLOP/s",
    "_hz": "Hz",
}
"""Units that the endings of names of columns state."""


def column(name: str, described: Any) -> Column:
    """Return the column that a header describes by a text, or by a table with ``doc`` and ``unit``.

    The end of a name such as ``_ns`` states the unit where the header gives none.

    Raises:
        TypeError: the description is neither, or lacks ``doc``.
    """
    usual = next((unit for end, unit in UNIT_OF_ENDING.items() if name.endswith(end)), None)
    values = {"doc": described} if isinstance(described, str) else described
    made = Column(**({"unit": usual} | values))
    return replace(made, doc=" ".join(made.doc.split()))


class Columns(Mapping[str, Column]):
    """The columns of a query by name, in order.

    A column that the header does not describe is described by the first relation that the query
    reads and that has a column of this name. It is looked up when its description is asked for.
    """

    def __init__(
        self,
        names: Sequence[str],
        own: Mapping[str, Column],
        relations: Sequence[str],
        columns_of: Callable[[str], Mapping[str, Column]],
    ) -> None:
        """Take the names, the columns that the header describes, and the relations read.

        Raises:
            TypeError: the header describes a column that is not among the names.
        """
        if unknown := own.keys() - set(names):
            raise TypeError(f"returns lacks {', '.join(sorted(unknown))}")
        self._names = dict.fromkeys(names)
        self._own = own
        self._relations = relations
        self._columns_of = columns_of

    def __getitem__(self, name: str) -> Column:
        """Return a column.

        Raises:
            KeyError: the query has no such column.
            UsageError: neither the header nor a relation that the query reads describes it.
        """
        if name not in self._names:
            raise KeyError(name)
        return self._own.get(name) or self._inherited(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def repeated(self) -> list[str]:
        """Return the columns whose own description is the one they would inherit."""
        return [name for name, own in self._own.items() if own == self._below(name)]

    def _inherited(self, name: str) -> Column:
        below = self._below(name)
        if below is None:
            raise UsageError(
                f"column {name} has no doc: describe it under [columns], as no relation of needs "
                "or optional has a column of this name"
            )
        return below

    def _below(self, name: str) -> Column | None:
        for relation in self._relations:
            if column := self._columns_of(relation).get(name):
                return column
        return None
