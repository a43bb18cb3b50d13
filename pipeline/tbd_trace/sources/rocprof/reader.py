"""Select canonical tables from the records of rocprofv3, whichever format they come from.

A format loads the relations ``record_process``, ``record_agent``, ``record_symbol``,
``record_thread``, ``record_dispatch``, ``record_copy`` and ``record_call`` (their columns:
``sql/rocpd``). ``part`` numbers the recordings of one file from 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb

from tbd_trace.errors import InputError
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.demangle import demangle, is_mangled, short_name
from tbd_trace.sources.value_table import create_value_table

RELATIONS = ("process", "agent", "symbol", "thread", "dispatch", "copy", "call")
"""Names of the relations, without ``record_``."""

COUNTERS_NOTE = "hardware counters are in the file, and are not read"
RECORD_AGAIN = "record again with `rocprofv3 --sys-trace`"
_MAPPINGS = Path(__file__).with_name("sql")
# The relations without which a canonical table has no rows.
_NEEDS = {
    "annotation": "SELECT 1 FROM record_call WHERE category NOT SIMILAR TO 'H(IP|SA).*'",
    "api_call": "SELECT 1 FROM record_call WHERE category SIMILAR TO 'H(IP|SA).*'",
    "device": "SELECT 1 FROM record_agent WHERE is_gpu",
    "kernel": "SELECT 1 FROM record_dispatch",
    "memcpy": "SELECT 1 FROM record_copy",
    "process": "SELECT 1 FROM record_process",
    "thread": "SELECT 1 FROM _thread",
}
# Process ids of several recordings can be equal: those of the first one stay as they are.
_KEY = "CREATE OR REPLACE TEMP MACRO key_of(part, id) AS id + part * 4294967296"
_OBJECT_SUFFIX = ".kd"  # of the symbol of a kernel descriptor
_NAMES = """
    SELECT part, kernel_id, display_name, symbol FROM record_symbol
    SEMI JOIN record_dispatch USING (part, kernel_id)"""


@cache
def mapping(name: str) -> str:
    """Return the text of a SQL file of this package by its path below ``sql``."""
    return (_MAPPINGS / f"{name}.sql").read_text(encoding="utf-8")


class RocprofReader(ABC):
    """Reader of one file, whose records are loaded when the first table is asked.

    Args:
        path: the file, for messages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_loaded = False

    @abstractmethod
    def load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the ``record_`` relations.

        Raises:
            InputError: the file is damaged.
        """

    @abstractmethod
    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return the metadata of the file."""

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT over the rows of a canonical table, None if the file lacks them.

        Raises:
            InputError: the file is damaged or has no records.
        """
        if table not in _NEEDS:
            return None
        if not self._is_loaded:
            self._load_all(connection)
        if not connection.execute(f"{_NEEDS[table]} LIMIT 1").fetchall():
            return None
        return mapping(table)

    def _load_all(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.load(connection)
        connection.execute(_KEY)
        for view in ("_thread", "_launching"):
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {mapping(view)}")
        if not connection.execute("SELECT 1 FROM _thread LIMIT 1").fetchall():
            raise InputError(
                f"{self._path}: a recording of rocprofv3 without kernels, copies and calls; "
                f"{RECORD_AGAIN}"
            )
        _create_kernel_names(connection)
        self._is_loaded = True

    def __enter__(self) -> Self:
        return self

    def __exit__(  # noqa: B027 - files that are read as a whole need nothing
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing; the reader of an open file closes it."""


def _create_kernel_names(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute(_NAMES).fetchall()
    symbols = [(row[3] or "").removesuffix(_OBJECT_SUFFIX) for row in rows]
    names = [demangle(row[2] or symbol) for row, symbol in zip(rows, symbols, strict=True)]
    mangled = [symbol if is_mangled(symbol) else None for symbol in symbols]
    create_value_table(
        connection,
        "kernel_name",
        {
            "part": ("BIGINT", [row[0] for row in rows]),
            "kernel_id": ("BIGINT", [row[1] for row in rows]),
            "name": ("VARCHAR", [name or None for name in names]),
            "short_name": ("VARCHAR", [short_name(name) or None for name in names]),
            "mangled_name": ("VARCHAR", mangled),
        },
    )
