"""Writing the large tables of a trace in parts, by several processes.

Python runs one thread at a time, and reading pages is much work for Python. So parts of a table are
written by processes that share nothing; this one is one of them. Whatever goes wrong with a part,
the caller writes its table as a whole, and meets the reason.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import duckdb

from tbd_trace.errors import InputError
from tbd_trace.helpers import Helper, HelperFailed, cpus
from tbd_trace.interrupts import recognized
from tbd_trace.limits import MEMORY_LIMIT, THREADS
from tbd_trace.schema import canonical_tables
from tbd_trace.scratch import scratch_connection
from tbd_trace.sources.base import Part, PartedReader, PartReader, Work
from tbd_trace.store.tables import part_file, table_files, whole_file, write_table

_MOST_PROCESSES = 4  # each takes some 200 MB
_WORTH_A_PART = 50_000  # rows of a table; smaller ones are quick in any way
_WORTH_HELPERS = 1_000_000  # rows of all tables: until they are read, another process has started
_WORTH_CUTTING = 500_000  # rows of a table
_MOST_ROWS = 2_000_000  # of a part
_MOST_ROUNDS = 16  # of parts; a table whose rowids have gaps seems larger than it is


@dataclass(frozen=True, slots=True)
class _Written:
    """A part that was written: its number of rows, and what its reader has met in them."""

    rows: int
    seen: Any


def write_in_parts(
    reader: PartedReader,
    tables: Sequence[str],
    *,
    trace_id: str,
    staging: Path,
    progress: Callable[[str], None],
) -> dict[str, int]:
    """Write the tables of a large file in parts.

    Args:
        reader: the open file.
        tables: the canonical tables that are wanted.
        trace_id: id of the trace.
        staging: the directory to write to.
        progress: called with the names of tables before they are written.

    Returns:
        The number of rows of each table that was written. The others are still to be written:
        those that are not worth it, cannot be cut, or failed.

    Raises:
        InputError: the file is damaged.
    """
    count = _processes()
    sizes = {table: reader.rows_in_parts(table) for table in tables} if count > 1 else {}
    sizes = {table: rows for table, rows in sizes.items() if rows >= _WORTH_A_PART}
    if sum(sizes.values()) < _WORTH_HELPERS:
        return {}
    writer = _Writer(reader, sizes, count, trace_id, staging)
    searches = {table: reader.searches(table, count) for table in sizes}
    at_once = [table for table in sizes if not searches[table]]
    with _Crew(count) as crew:
        progress(", ".join(at_once or sizes))
        works = writer.works(at_once)
        done = crew.run(works | {f"for {table}": search for table, search in searches.items()})
        rows = writer.finish(at_once, done)
        later = [table for table in sizes if searches[table] and f"for {table}" in done]
        for table in later:
            progress(table)
            reader.found(done[f"for {table}"])
        return rows | writer.finish(later, crew.run(writer.works(later)))


def _processes() -> int:
    """Return how many processes may work at an ingest.

    It is one where the user bounds the memory, which DuckDB takes for the bound of one process.
    """
    threads = os.environ.get(THREADS, "")
    allowed = int(threads) if threads.isdecimal() else _MOST_PROCESSES
    return 1 if MEMORY_LIMIT in os.environ else min(allowed, cpus(), _MOST_PROCESSES)


class _Writer:
    """Cuts tables into parts, and puts together what became of them."""

    def __init__(
        self,
        reader: PartedReader,
        sizes: Mapping[str, int],
        processes: int,
        trace_id: str,
        staging: Path,
    ) -> None:
        self._reader = reader
        self._sizes = sizes
        self._processes = processes
        self._trace_id = trace_id
        self._staging = staging

    def works(self, tables: Sequence[str]) -> dict[str, list[Work]]:
        """Return what writes the parts of each table."""
        return {
            table: [
                partial(
                    _write_part,
                    self._reader.part_opener(table, Part(number, len(files))),
                    table,
                    self._trace_id,
                    file,
                )
                for number, file in enumerate(files)
            ]
            for table in tables
            for files in [self._files(table)]
        }

    def _files(self, table: str) -> list[Path]:
        count = self._count(table)
        if count == 1:
            return [whole_file(self._staging, table)]
        return [part_file(self._staging, table, number) for number in range(count)]

    def _count(self, table: str) -> int:
        """Return the number of parts; all processes are to have done at the same time."""
        if self._sizes[table] < _WORTH_CUTTING:
            return 1
        rounds = -(-self._sizes[table] // (self._processes * _MOST_ROWS))
        return self._processes * min(rounds, _MOST_ROUNDS)

    def finish(
        self, tables: Sequence[str], done: Mapping[str, Sequence[_Written]]
    ) -> dict[str, int]:
        """Return the numbers of rows of the tables that were written; remove remains of others."""
        rows = {}
        for table in tables:
            if table in done:
                self._reader.note(table, [part.seen for part in done[table]])
                rows[table] = sum(part.rows for part in done[table])
                continue
            for file in table_files(self._staging, table):
                file.unlink(missing_ok=True)
        return rows


def _write_part(
    opener: Callable[[], PartReader], table: str, trace_id: str, file: Path
) -> _Written:
    """Write a part of a canonical table, in whichever process.

    DuckDB asks for rows in this thread, so that Ctrl-C comes soon without more.
    """
    with (
        opener() as reader,
        scratch_connection(file.with_suffix(".spill")) as connection,
        recognized(),
    ):
        connection.execute("SET threads = 1")
        select = reader.relation(connection, table)
        rows = write_table(
            connection, select, canonical_tables()[table], trace_id=trace_id, file=file
        )
        return _Written(rows, reader.seen())


class _Crew:
    """Processes that do what there is to do: this one and helpers. It is a context manager."""

    def __init__(self, processes: int) -> None:
        self._helpers: list[Helper] = []
        with contextlib.suppress(HelperFailed):
            for _ in range(processes - 1):
                self._helpers.append(Helper())

    def run(self, works: Mapping[str, Sequence[Work]]) -> dict[str, list[Any]]:
        """Return the results of works by their group, without the groups where one failed."""
        waiting = deque((group, n) for group, several in works.items() for n in range(len(several)))
        results: dict[str, dict[int, Any]] = {group: {} for group in works}

        def take(call: Callable[[Work], Any]) -> None:
            with contextlib.suppress(HelperFailed, IndexError):
                while True:
                    group, number = waiting.popleft()
                    with contextlib.suppress(duckdb.Error, InputError, OSError):
                        results[group][number] = call(works[group][number])

        with ThreadPoolExecutor(max(len(self._helpers), 1)) as talks:
            try:
                for helper in self._helpers:
                    talks.submit(take, helper.call)
                take(_here)
                talks.shutdown()
            except BaseException:  # Ctrl-C, for one
                waiting.clear()
                self.close()
                raise
        return {
            group: [found[number] for number in range(len(found))]
            for group, found in results.items()
            if len(found) == len(works[group])
        }

    def close(self) -> None:
        """End the helpers, whatever they are at."""
        while self._helpers:
            self._helpers.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _here(work: Work) -> Any:
    return work()
