"""Write the large tables of a trace in row ranges, by several processes.

Reading SQLite pages is work for Python, which runs one thread at a time. Processes therefore
share nothing. If a range fails, the caller rewrites the whole table serially, which surfaces the
original error.
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
from tbd_trace.model.row_range import RowRange
from tbd_trace.runtime.duckdb_connection import ingest_database
from tbd_trace.runtime.sigint import translate_interrupts
from tbd_trace.runtime.worker_pool import Work, WorkerPool, processes
from tbd_trace.sources.base import ParallelReader, RangeReader
from tbd_trace.store.tables import part_file, whole_file, write_table

_WORTH_A_PART = 50_000  # rows of a table; smaller ones are quick in any way
_WORTH_WORKERS = 1_000_000  # rows of all tables: until they are read, another process has started
_WORTH_CUTTING = 500_000  # rows of a table
_PARTS = 8  # for each process, or more: so that all have done at nearly the same time
_LEAST_ROWS, _MOST_ROWS = 250_000, 1_000_000  # of a part, on average: later ones have fewer
_MOST_ROUNDS = 16  # of parts; a table whose rowids have gaps seems larger than it is

_PartOf = tuple[str, int]  # a canonical table and the number of one of its parts


@dataclass(frozen=True, slots=True)
class _Written:
    rows: int
    collected: Any


def write_in_parts(
    reader: ParallelReader,
    tables: Sequence[CanonicalTable],
    *,
    pool: WorkerPool,
    trace_id: str,
    staging: Path,
    progress: Callable[[str], None],
) -> dict[str, int]:
    """Write the tables of a large file in row ranges.

    Args:
        tables: the canonical tables and columns to write.
        pool: the worker processes; closed at the end.
        progress: called with the name of each table before it is written.

    Returns:
        Rows of each table that was written. Small, indivisible and failed tables are missing.

    Raises:
        InputError: the file is damaged.
    """
    count = processes()
    names = [table.name for table in tables]
    sizes = {name: reader.parallel_rows(name) for name in names} if count > 1 else {}
    sizes = {table: rows for table, rows in sizes.items() if rows >= _WORTH_A_PART}
    if sum(sizes.values()) < _WORTH_WORKERS:
        return {}
    writer = _Writer(reader, tables, _files(sizes, count, staging), trace_id)
    try:
        pool.start_workers()
        progress(", ".join(sizes))
        writer.write(pool, writer.parts())
        writer.write(pool, writer.stale())
    finally:
        pool.close()
        _reader.close()
    return writer.finish()


def _files(sizes: Mapping[str, int], processes: int, staging: Path) -> dict[str, list[Path]]:
    # Largest ranges first, so that all processes end at about the same time.
    most = min(max(sum(sizes.values()) // (processes * _PARTS), _LEAST_ROWS), _MOST_ROWS)
    counts = {table: _count(rows, processes, most) for table, rows in sizes.items()}
    return {
        table: [part_file(staging, table, number) for number in range(counts[table])]
        if counts[table] > 1
        else [whole_file(staging, table)]
        for table in sorted(sizes, key=lambda table: -sizes[table] // counts[table])
    }


def _count(rows: int, processes: int, most: int) -> int:
    if rows < _WORTH_CUTTING:
        return 1
    rounds = -(-rows // (processes * most))
    return processes * min(rounds, _MOST_ROUNDS)


class _Writer:
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
        return [(table, n) for table, files in self._files.items() for n in range(len(files))]

    def write(self, pool: WorkerPool, parts: Sequence[_PartOf]) -> None:
        # Failed ranges are removed from the list.
        for part in parts:
            self._written.pop(part, None)
        opener = self._reader.range_opener()
        self._written |= pool.run({part: self._work(opener, *part) for part in parts})

    def _work(self, opener: Callable[[], RangeReader], table: str, number: int) -> Work:
        files = self._files[table]
        row_range = RowRange(number, len(files))
        wanted = self._tables[table]
        return partial(_write_part, opener, row_range, wanted, self._trace_id, files[number])

    def stale(self) -> list[_PartOf]:
        # Ranges to write again, after all tables were read once.
        tables = self._complete()
        for table, parts in tables.items():
            self._reader.merge(table, [part.collected for part in parts])
        return [(table, number) for table in tables for number in self._reader.stale(table)]

    def _complete(self) -> dict[str, list[_Written]]:
        numbers = {table: range(len(files)) for table, files in self._files.items()}
        return {
            table: [self._written[table, number] for number in numbers[table]]
            for table in numbers
            if all((table, number) in self._written for number in numbers[table])
        }

    def finish(self) -> dict[str, int]:
        # Files of incomplete tables are deleted.
        complete = self._complete()
        for table in self._files.keys() - complete.keys():
            for file in self._files[table]:
                file.unlink(missing_ok=True)
        return {table: sum(part.rows for part in parts) for table, parts in complete.items()}


class _OpenReader(threading.local):
    # One reader and connection per thread: small tables are loaded once, and DuckDB keeps its
    # buffers. DuckDB pulls rows in the reading thread, so that Ctrl-C arrives at once.

    def __init__(self) -> None:
        self._open: tuple[RangeReader, duckdb.DuckDBPyConnection] | None = None
        self._opener: Callable[[], RangeReader] | None = None

    @contextlib.contextmanager
    def use(
        self, opener: Callable[[], RangeReader], staging: Path
    ) -> Iterator[tuple[RangeReader, duckdb.DuckDBPyConnection]]:
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
    with _reader.use(opener, file.parent) as (reader, connection), translate_interrupts():
        reader.select_range(row_range)
        select = reader.relation(connection, table.name)
        rows = write_table(connection, select, table, trace_id=trace_id, file=file)
        return _Written(rows, reader.collected())
