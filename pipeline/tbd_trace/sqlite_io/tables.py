"""Stream a table from the pages of a SQLite file, several times faster than SQLite does.

`plan` accepts ordinary rowid tables. Threads read and decode batches of pages (NumPy and Arrow
release the GIL), and `stream` yields the batches in rowid order.
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

from tbd_trace.model.row_range import RowRange
from tbd_trace.runtime.worker_process import cpus
from tbd_trace.sqlite_io.cells import find_cells
from tbd_trace.sqlite_io.columns import WantedColumn
from tbd_trace.sqlite_io.errors import UnsupportedLayout
from tbd_trace.sqlite_io.pages import Integers, PageFile
from tbd_trace.sqlite_io.record_layouts import RecordLayouts
from tbd_trace.sqlite_io.records import Decoder, without_integer

_BATCH_BYTES = 2 << 20  # small enough for a batch and its arrays to stay near the CPU's caches
_BATCH_ROWS = 32_000
_MOST_THREADS = 4
_CHUNK_ROWS = 2048  # DuckDB's STANDARD_VECTOR_SIZE
_FEW_ROWS = 64
_AHEAD = 8  # decoded batches that may wait; DuckDB pulls none while it compresses a row group
_KINDS = (pa.int64(), pa.float64(), pa.string(), pa.binary())
# Rules of column affinity, https://www.sqlite.org/datatype3.html, section 3.1.
_REAL = ("REAL", "FLOA", "DOUB")
_NOT_REAL = ("INT", "CHAR", "CLOB", "TEXT", "BLOB")

Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """Root page and columns to read a table from."""

    root: int
    columns: tuple[WantedColumn | None, ...]  # None for columns that the table lacks
    not_integer: WantedColumn | None = None  # skip rows with an integer in this column


def plan(
    query: Query,
    table: str,
    columns: Mapping[str, pa.DataType],
    rowid: str | None,
    not_integer: str | None = None,
) -> TablePlan:
    """Return the plan for reading columns of a table; see `SqliteFile.batches`.

    Raises:
        UnsupportedLayout: the table is not an ordinary rowid table, or has generated columns.
    """
    literal, quoted = table.replace("'", "''"), table.replace('"', '""')
    entries = query(f"SELECT type, rootpage FROM sqlite_master WHERE name = '{literal}'")
    if len(entries) != 1 or entries[0][0] != "table" or not isinstance(entries[0][1], int):
        raise UnsupportedLayout("not a table")
    infos = query(f'PRAGMA table_xinfo("{quoted}")')
    if any(info[6] for info in infos):
        raise UnsupportedLayout("generated or hidden columns")
    stored = {str(info[1]).lower(): info for info in infos}
    if rowid is not None and "rowid" in stored:
        raise UnsupportedLayout("a column is named rowid")
    alias = _rowid_alias(infos, query(f'PRAGMA index_list("{quoted}")'))
    wanted = [_wanted(stored.get(name.lower()), kind, alias) for name, kind in columns.items()]
    if rowid is not None:
        wanted.append(WantedColumn(None, pa.int64()))
    filtered = None
    if not_integer is not None:
        filtered = _wanted(stored.get(not_integer.lower()), pa.int64(), alias)
        if filtered is not None and filtered.ordinal is None:
            raise UnsupportedLayout("the rowid is always an integer")
    return TablePlan(entries[0][1], tuple(wanted), filtered)


def _rowid_alias(infos: Sequence[tuple[Any, ...]], indexes: Sequence[tuple[Any, ...]]) -> int:
    keys = [(info[0], str(info[2]).upper()) for info in infos if info[5]]
    # INTEGER PRIMARY KEY is an alias of the rowid unless it has an index, such as with DESC
    # (https://www.sqlite.org/lang_createtable.html#rowid).
    if len(keys) != 1 or keys[0][1] != "INTEGER" or any(index[3] == "pk" for index in indexes):
        return -1
    return int(keys[0][0])


def _wanted(info: tuple[Any, ...] | None, kind: pa.DataType, alias: int) -> WantedColumn | None:
    if info is None:
        return None
    declared = str(info[2]).upper()
    is_real = any(t in declared for t in _REAL) and not any(t in declared for t in _NOT_REAL)
    is_alias = info[0] == alias
    # No profile needs these conversions.
    if kind not in _KINDS or (is_alias and kind != pa.int64()) or (is_real and kind == pa.int64()):
        raise UnsupportedLayout(f"column {info[1]} is requested as {kind}")
    if is_alias:
        return WantedColumn(None, kind)
    return WantedColumn(int(info[0]), kind, is_real, has_default=info[4] is not None)


def stream(
    path: Path, table: TablePlan, schema: pa.Schema, row_range: RowRange | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in rowid order, with threads unless it is only a part.

    Raises:
        UnsupportedLayout: SQLite has to read the rows behind those yielded so far.
    """
    with PageFile(path) as file:
        # A process reads many parts of a table: walk its b-tree only once.
        leaves = (
            file.leaves(table.root)
            if row_range is None
            else _cached_leaves(path, table.root, file.identity)
        )
        is_only = leaves.size == 1
        if row_range is not None:
            leaves = _leaves_in(leaves, row_range)
        batches = _batches(file, leaves) if leaves.size else []
        present = [column for column in table.columns if column is not None]
        known = [*present, table.not_integer] if table.not_integer else present
        stored = [column for column in known if column.ordinal is not None]
        layouts = RecordLayouts(
            [column.ordinal or 0 for column in stored],
            required=[column.ordinal or 0 for column in stored if column.has_default],
        )
        decoder = Decoder(file, layouts, present)

        def read(pages: Integers) -> pa.RecordBatch:
            cells = find_cells(file, pages, is_only=is_only)
            if table.not_integer is not None:  # the last column of the layouts
                cells = without_integer(file, cells, layouts, table.not_integer)
            arrays = iter(decoder.decode(cells))
            filled = [
                pa.nulls(cells.rowids.size, field.type) if column is None else next(arrays)
                for column, field in zip(table.columns, schema, strict=True)
            ]
            return pa.RecordBatch.from_arrays(filled, schema=schema)

        is_serial = row_range is not None or len(batches) == 1
        for batch in map(read, batches) if is_serial else _prefetched(read, batches):
            yield from _without_small_tail(batch)


def _leaves_in(leaves: Integers, row_range: RowRange) -> Integers:
    # Sizes decrease linearly, so that processes which take one part after the other finish at
    # nearly the same time.
    bounds = np.arange(row_range.number, row_range.number + 2) / row_range.count
    first, last = np.rint(leaves.size * bounds * (2 - bounds)).astype(np.int64)
    return leaves[first:last]


def _batches(file: PageFile, leaves: Integers) -> list[Integers]:
    # The cell count of the first leaf (bytes 3 and 4 of a page) estimates the rows per page.
    header = file.read(leaves[:1])
    rows = max(int(header[3]) << 8 | int(header[4]), 1)
    pages = max(min(_BATCH_BYTES // file.page_size, _BATCH_ROWS // rows), 1)
    return np.array_split(leaves, range(pages, leaves.size, pages))


def _without_small_tail(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    # DuckDB cuts each batch into chunks and holds back a last chunk with few rows, which changes
    # the order of the rows: make the last chunk larger.
    last = batch.num_rows % _CHUNK_ROWS
    if not 0 < last <= _FEW_ROWS or batch.num_rows < _CHUNK_ROWS:
        return [batch]
    first = batch.num_rows - _CHUNK_ROWS // 2
    return [batch.slice(0, first), batch.slice(first)]


@lru_cache(maxsize=8)
def _cached_leaves(path: Path, root: int, identity: tuple[int, ...]) -> Integers:
    with PageFile(path) as file:
        return file.leaves(root)


def _prefetched(
    read: Callable[[Integers], pa.RecordBatch], batches: Sequence[Integers]
) -> Iterator[pa.RecordBatch]:
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
