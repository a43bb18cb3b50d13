"""Writing the large tables of a trace in parts, by several processes.

Python runs one thread at a time, and reading pages is much work for Python. So parts of a table are
written by processes that share nothing; this one is one of them. Whatever goes wrong with a part,
the caller writes its table as a whole, and meets the reason.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from tbd_trace.model.canonical_tables import CanonicalTable
from tbd_trace.runtime.duckdb_connection import ingest_database
from tbd_trace.runtime.sigint import translate_interrupts
from tbd_trace.runtime.worker_pool import Crew, Work, processes
from tbd_trace.sources.base import ParallelReader, RangeReader, RowRange
from tbd_trace.store.tables import part_file, whole_file, write_table

_WORTH_A_PART = 50_000  # rows of a table; smaller ones are quick in any way
_WORTH_HELPERS = 1_000_000  # rows of all tables: until they are read, another process has started
_WORTH_CUTTING = 500_000  # rows of a table
_PARTS = 8  # for each process, or more: so that all have done at nearly the same time
_LEAST_ROWS, _MOST_ROWS = 250_000, 1_000_000  # of a part, on average: later ones have fewer
_MOST_ROUNDS = 16  # of parts; a table whose rowids have gaps seems larger than it is

_PartOf = tuple[str, int]  # a canonical table and the number of one of its parts


@dataclass(frozen=True, slots=True)
class _Written:
    """A part that was written: its number of rows, and what its reader has met in them."""

    rows: int
    collected: Any


def write_in_parts(
    reader: ParallelReader,
    tables: Sequence[CanonicalTable],
    *,
    crew: Crew,
    trace_id: str,
    staging: Path,
    progress: Callable[[str], None],
) -> dict[str, int]:
    """Write the tables of a large file in parts.

    Args:
        reader: the open file.
        tables: the canonical tables that are wanted, with the columns that are.
        crew: the processes that write them; it is closed then.
        trace_id: id of the trace.
        staging: the directory to write to.
        progress: called with the names of tables before they are written.

    Returns:
        The number of rows of each table that was written. The others are still to be written:
        those that are not worth it, cannot be cut, or failed.

    Raises:
        InputError: the file is damaged.
    """
    count = processes()
    names = [table.name for table in tables]
    sizes = {name: reader.parallel_rows(name) for name in names} if count > 1 else {}
    sizes = {table: rows for table, rows in sizes.items() if rows >= _WORTH_A_PART}
    if sum(sizes.values()) < _WORTH_HELPERS:
        return {}
    writer = _Writer(reader, tables, _files(sizes, count, staging), trace_id)
    try:
        crew.call_helpers()
        progress(", ".join(sizes))
        writer.write(crew, writer.parts())
        writer.write(crew, writer.stale())
    finally:
        crew.close()
        _reader.close()
    return writer.finish()


def _files(sizes: Mapping[str, int], processes: int, staging: Path) -> dict[str, list[Path]]:
    """Return the files to write for each table, those of the largest parts first.

    All processes are to have done at the same time.
    """
    most = min(max(sum(sizes.values()) // (processes * _PARTS), _LEAST_ROWS), _MOST_ROWS)
    counts = {table: _count(rows, processes, most) for table, rows in sizes.items()}
    return {
        table: [part_file(staging, table, number) for number in range(counts[table])]
        if counts[table] > 1
        else [whole_file(staging, table)]
        for table in sorted(sizes, key=lambda table: -sizes[table] // counts[table])
    }


def _count(rows: int, processes: int, most: int) -> int:
    """Return the number of parts of a table, which have ``most`` rows at most, on average."""
    if rows < _WORTH_CUTTING:
        return 1
    rounds = -(-rows // (processes * most))
    return processes * min(rounds, _MOST_ROUNDS)


class _Writer:
    """Writes tables in parts, and puts together what became of them."""

    def __init__(
        self,
        reader: ParallelReader,
        tables: Sequence[CanonicalTable],
        files: Mapping[str, Sequence[Path]],
        trace_id: str,
    ) -> None:
        self._reader = reader
        self._tables = {table.name: table for table in tables}
        self._files = files
        self._trace_id = trace_id
        self._written: dict[_PartOf, _Written] = {}

    def parts(self) -> list[_PartOf]:
        """Return all parts of all tables."""
        return [(table, n) for table, files in self._files.items() for n in range(len(files))]

    def write(self, crew: Crew, parts: Sequence[_PartOf]) -> None:
        """Write some parts; those that fail are no longer there."""
        for part in parts:
            self._written.pop(part, None)
        opener = self._reader.range_opener()
        self._written |= crew.run({part: self._work(opener, *part) for part in parts})

    def _work(self, opener: Callable[[], RangeReader], table: str, number: int) -> Work:
        files = self._files[table]
        row_range = RowRange(number, len(files))
        wanted = self._tables[table]
        return partial(_write_part, opener, row_range, wanted, self._trace_id, files[number])

    def stale(self) -> list[_PartOf]:
        """Return the parts to write again, as all have been read now."""
        tables = self._complete()
        for table, parts in tables.items():
            self._reader.merge(table, [part.collected for part in parts])
        return [(table, number) for table in tables for number in self._reader.stale(table)]

    def _complete(self) -> dict[str, list[_Written]]:
        """Return what was written of the tables that have all their parts."""
        numbers = {table: range(len(files)) for table, files in self._files.items()}
        return {
            table: [self._written[table, number] for number in numbers[table]]
            for table in numbers
            if all((table, number) in self._written for number in numbers[table])
        }

    def finish(self) -> dict[str, int]:
        """Return the numbers of rows of the tables that were written; remove remains of others."""
        complete = self._complete()
        for table in self._files.keys() - complete.keys():
            for file in self._files[table]:
                file.unlink(missing_ok=True)
        return {table: sum(part.rows for part in parts) for table, parts in complete.items()}


class _OpenReader(threading.local):
    """The reader of parts that this thread has open, and the connection that it knows.

    Small tables are read and mapped once for all parts. DuckDB asks for rows in the thread that
    reads, so that Ctrl-C comes soon without more. It stays with one: with each change it gives
    memory back to the system, which is slow to get again.
    """

    def __init__(self) -> None:
        self._open: tuple[RangeReader, duckdb.DuckDBPyConnection] | None = None
        self._opener: Callable[[], RangeReader] | None = None

    @contextlib.contextmanager
    def use(
        self, opener: Callable[[], RangeReader], staging: Path
    ) -> Iterator[tuple[RangeReader, duckdb.DuckDBPyConnection]]:
        """Open the reader, unless it is; one that fails is closed."""
        try:
            if self._open is None or self._opener != opener:
                self.close()
                connection = ingest_database(staging, os.getpid()).cursor()
                connection.execute("SET threads = 1")
                self._open, self._opener = (opener(), connection), opener
            yield self._open
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the reader, if one is open."""
        if self._open is not None:
            reader, connection = self._open
            self._open = None
            connection.close()
            reader.__exit__(None, None, None)


_reader = _OpenReader()


def _write_part(
    opener: Callable[[], RangeReader],
    row_range: RowRange,
    table: CanonicalTable,
    trace_id: str,
    file: Path,
) -> _Written:
    """Write a part of a canonical table, in whichever process."""
    with _reader.use(opener, file.parent) as (reader, connection), translate_interrupts():
        reader.select_range(row_range)
        select = reader.relation(connection, table.name)
        rows = write_table(connection, select, table, trace_id=trace_id, file=file)
        return _Written(rows, reader.collected())
