"""The canonical tables, as ``queries/canonical/*.sql`` documents them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tbd_trace import resources

_COLUMN = re.compile(
    r"^\s+(?P<name>\w+)\s+(?P<type>\w+(?:\[\])?)(?: NOT NULL)?,?\s*-- (?P<doc>.+)$"
)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column: its name, DuckDB type and meaning."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class CanonicalTable:
    """One canonical table: its name, meaning and columns in order."""

    name: str
    doc: str
    columns: tuple[TableColumn, ...]

    @property
    def empty_select(self) -> str:
        """SELECT with the table's columns and no rows."""
        columns = ", ".join(f"NULL::{column.type} AS {column.name}" for column in self.columns)
        return f"SELECT {columns} WHERE false"

    def only(self, names: Collection[str] | None) -> CanonicalTable:
        """Return the table with some of its columns, ``trace_id`` always; None means all."""
        if names is None:
            return self
        kept = tuple(column for column in self.columns if column.name in {"trace_id", *names})
        return replace(self, columns=kept)


@cache
def canonical_tables() -> dict[str, CanonicalTable]:
    """Return the canonical tables by name."""
    return {name: _parse(path) for name, path in resources.sql_files("canonical").items()}


def _parse(path: Path) -> CanonicalTable:
    lines = path.read_text(encoding="utf-8").splitlines()
    doc = " ".join(line.removeprefix("--").strip() for line in lines if line.startswith("--"))
    matches = (_COLUMN.match(line) for line in lines)
    columns = tuple(TableColumn(m["name"], m["type"], m["doc"].strip()) for m in matches if m)
    return CanonicalTable(path.stem, doc, columns)
