"""Reader of small files that are parsed as a whole into rows of canonical tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import duckdb

from tbd_trace.sources.arrow_columns import Damage, register
from tbd_trace.sources.base import Ask, TraceDescription


class RowReader:
    """Reader of parsed rows.

    Args:
        rows: rows by canonical table, each as values by column.
        description: metadata of the file.
    """

    def __init__(
        self, rows: Mapping[str, Sequence[Mapping[str, Any]]], description: TraceDescription
    ) -> None:
        self._rows = rows
        self._description = description
        self._damage = Damage()

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT over the rows of a canonical table, None if the file lacks them."""
        rows = self._rows.get(table)
        if not rows:
            return None
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
        return register(connection, table, [columns], self._damage)

    def describe(self, _ask: Ask | None = None) -> TraceDescription:
        """Return the metadata of the file."""
        if self._damage.values:
            note = f"values of another type than expected: {self._damage.values:,}; NULL"
            self._description.notes.append(note)
        return self._description

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: the file was read as a whole."""
