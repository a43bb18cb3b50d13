"""Streaming a table out of a SQLite file's pages, several times faster than through SQLite.

Used for ordinary tables of ordinary files; `plan` tells which. Batches of pages are read and
decoded by threads (NumPy and Arrow work outside Python's lock), and come out in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tbd_trace.runtime.worker_process import cpus
from tbd_trace.sources.base import Part
from tbd_trace.sqlite_io.cells import find_cells
from tbd_trace.sqlite_io.columns import WantedColumn
from tbd_trace.sqlite_io.pages import Integers, LeftToSqlite, PageFile
from tbd_trace.sqlite_io.record_layouts import Shapes
from tbd_trace.sqlite_io.records import Decoder, without_integer

_BATCH_BYTES = 2 << 20  # what its arrays take, too, stays near the processor's caches
_BATCH_ROWS = 32_000
_MOST_THREADS = 4
_CHUNK_ROWS = 2048  # of DuckDB
_FEW_ROWS = 64
_AHEAD = 8  # batches; DuckDB takes none while it compresses what it has
_KINDS = (pa.int64(), pa.float64(), pa.string(), pa.binary())
_REAL = ("REAL", "FLOA", "DOUB")
_NOT_REAL = ("INT", "CHAR", "CLOB", "TEXT", "BLOB")

Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How to read a table.

    Attributes:
        root: number of the root page of its b-tree.
        columns: what to read, None for a column that the table does not have.
        without: read only rows without an integer in this column, None for all rows.
    """

    root: int
    columns: tuple[WantedColumn | None, ...]
    without: WantedColumn | None = None


def plan(
    query: Query,
    table: str,
    columns: Mapping[str, pa.DataType],
    rowid: str | None,
    without: str | None = None,
) -> TablePlan:
    """Return how to read columns of a table.

    Args:
        query: runs a statement in SQLite.
        table: name of the table.
        columns: wanted columns and their Arrow types.
        rowid: name under which the rowid is wanted, too.
        without: only rows without an integer in this column are wanted; None for all.

    Raises:
        LeftToSqlite: it is no ordinary table, or one of the columns is computed.
    """
    literal, quoted = table.replace("'", "''"), table.replace('"', '""')
    found = query(f"SELECT type, rootpage FROM sqlite_master WHERE name = '{literal}'")
    if len(found) != 1 or found[0][0] != "table" or not isinstance(found[0][1], int):
        raise LeftToSqlite("not a table")
    infos = query(f'PRAGMA table_xinfo("{quoted}")')
    if any(info[6] for info in infos):
        raise LeftToSqlite("generated or hidden columns")
    stored = {str(info[1]).lower(): info for info in infos}
    if rowid is not None and "rowid" in stored:
        raise LeftToSqlite("a column is named rowid")
    alias = _rowid_alias(infos, query(f'PRAGMA index_list("{quoted}")'))
    wanted = [_wanted(stored.get(name.lower()), kind, alias) for name, kind in columns.items()]
    if rowid is not None:
        wanted.append(WantedColumn(None, pa.int64()))
    filtered = None
    if without is not None:
        filtered = _wanted(stored.get(without.lower()), pa.int64(), alias)
        if filtered is not None and filtered.ordinal is None:
            raise LeftToSqlite("rows without a rowid are wanted")
    return TablePlan(found[0][1], tuple(wanted), filtered)


def _rowid_alias(infos: Sequence[tuple[Any, ...]], indexes: Sequence[tuple[Any, ...]]) -> int:
    """Return the number of the column that is another name of the rowid, -1 if there is none."""
    keys = [(info[0], str(info[2]).upper()) for info in infos if info[5]]
    # A primary key that has an index is none, such as INTEGER PRIMARY KEY DESC.
    if len(keys) != 1 or keys[0][1] != "INTEGER" or any(index[3] == "pk" for index in indexes):
        return -1
    return int(keys[0][0])


def _wanted(info: tuple[Any, ...] | None, kind: pa.DataType, alias: int) -> WantedColumn | None:
    """Return how to read one column."""
    if info is None:
        return None
    declared = str(info[2]).upper()
    is_real = any(t in declared for t in _REAL) and not any(t in declared for t in _NOT_REAL)
    is_alias = info[0] == alias
    # Conversions that no profile needs.
    if kind not in _KINDS or (is_alias and kind != pa.int64()) or (is_real and kind == pa.int64()):
        raise LeftToSqlite(f"column {info[1]} is wanted as {kind}")
    if is_alias:
        return WantedColumn(None, kind)
    return WantedColumn(int(info[0]), kind, is_real, has_default=info[4] is not None)


def stream(
    path: Path, table: TablePlan, schema: pa.Schema, part: Part | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in the order of their rowids.

    Args:
        path: the file.
        table: how to read the table.
        schema: names and types of its columns.
        part: the part of the rows to read, in this thread only; None for all, with other threads.

    Raises:
        LeftToSqlite: the rows after those that were yielded are left to SQLite.
    """
    with PageFile(path) as file:
        leaves = file.leaves(table.root) if part is None else _leaves(path, table.root, file.state)
        is_only = leaves.size == 1
        if part is not None:
            leaves = _share(leaves, part)
        batches = _batches(file, leaves) if leaves.size else []
        present = [column for column in table.columns if column is not None]
        known = [*present, table.without] if table.without else present
        stored = [column for column in known if column.ordinal is not None]
        shapes = Shapes(
            [column.ordinal or 0 for column in stored],
            required=[column.ordinal or 0 for column in stored if column.has_default],
        )
        decoder = Decoder(file, shapes, present)

        def read(pages: Integers) -> pa.RecordBatch:
            cells = find_cells(file, pages, is_only=is_only)
            if table.without is not None:  # the last of the shapes' columns
                cells = without_integer(file, cells, shapes, table.without)
            arrays = iter(decoder.decode(cells))
            filled = [
                pa.nulls(cells.rowids.size, field.type) if column is None else next(arrays)
                for column, field in zip(table.columns, schema, strict=True)
            ]
            return pa.RecordBatch.from_arrays(filled, schema=schema)

        for batch in map(read, batches) if part or len(batches) == 1 else _ahead(read, batches):
            yield from _in_order(batch)


def _share(leaves: Integers, part: Part) -> Integers:
    """Return the leaf pages of a part: later parts have fewer.

    Processes that take one after another then have all done at nearly the same time.
    """
    bounds = np.arange(part.number, part.number + 2) / part.count
    first, last = np.rint(leaves.size * bounds * (2 - bounds)).astype(np.int64)
    return leaves[first:last]


def _batches(file: PageFile, leaves: Integers) -> list[Integers]:
    """Return leaf pages by batches, all of as many pages; the rows of the first tell how many."""
    header = file.read(leaves[:1])
    rows = max(int(header[3]) << 8 | int(header[4]), 1)
    pages = max(min(_BATCH_BYTES // file.page_size, _BATCH_ROWS // rows), 1)
    return np.array_split(leaves, range(pages, leaves.size, pages))


def _in_order(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the rows of a batch in batches that DuckDB passes on in this order.

    It cuts each into chunks, and puts aside the last one if it has few rows.
    """
    last = batch.num_rows % _CHUNK_ROWS
    if not 0 < last <= _FEW_ROWS or batch.num_rows < _CHUNK_ROWS:
        return [batch]
    first = batch.num_rows - _CHUNK_ROWS // 2
    return [batch.slice(0, first), batch.slice(first)]


@lru_cache(maxsize=8)
def _leaves(path: Path, root: int, state: tuple[int, ...]) -> Integers:
    """Return a table's leaf pages, once for all its parts that this process reads."""
    with PageFile(path) as file:
        return file.leaves(root)


def _ahead(
    read: Callable[[Integers], pa.RecordBatch], batches: Sequence[Integers]
) -> Iterator[pa.RecordBatch]:
    """Apply a function in threads, a few batches ahead of the consumer."""
    threads = min(cpus(), _MOST_THREADS)
    pending: deque[Future[pa.RecordBatch]] = deque()
    executor = ThreadPoolExecutor(threads, thread_name_prefix="tbd-trace-pages")
    try:
        for batch in batches:
            pending.append(executor.submit(read, batch))
            if len(pending) > _AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)
