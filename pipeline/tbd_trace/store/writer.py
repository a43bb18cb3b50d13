"""Write one trace: Parquet files of its canonical tables, published by one rename."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import (
    JOB_RANK,
    KERNEL,
    KERNEL_TOTALS,
    CanonicalTable,
    event_tables,
)
from tbd_trace.runtime.duckdb_connection import ingest_database, release
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import parquet_relation
from tbd_trace.store.audit import Audit
from tbd_trace.store.capture import CaptureFile
from tbd_trace.store.capture_tables import CAPTURE_TABLES, capture_relation
from tbd_trace.store.content import Content, check_unchanged
from tbd_trace.store.identified_file import IngestReport
from tbd_trace.store.ingest_tables import IngestTables
from tbd_trace.store.ranks import rank_relation
from tbd_trace.store.staging import explain_errors, private_directory, publish
from tbd_trace.store.tables import table_files, whole_file, write_table
from tbd_trace.store.trace_row import (
    content_columns,
    file_columns,
    span_columns,
    unicode_name,
    write_trace_row,
)

if TYPE_CHECKING:
    from tbd_trace.runtime.worker_pool import WorkerPool
    from tbd_trace.sources.base import Source, TraceReader

_SMALL_BYTES = 1 << 26


def write_trace(
    file: CaptureFile,
    source: Source,
    *,
    content: Content,
    trace_id: str,
    target: Path,
    tables: Collection[str] | None,
    columns: Collection[str] | None,
    pool: WorkerPool,
    progress: Callable[[str], None],
) -> IngestReport | None:
    """Write one profiler file as the directory ``target`` of Parquet files, atomically.

    Args:
        file: the profiler file and its capture's metadata.
        target: directory to create, with its parents.
        tables: canonical tables to write beside ``trace``, None for all.
        columns: columns of those tables, None for all.
        progress: called with the name of each table before it is written.

    Returns:
        None if another process created ``target`` first; its result stays.

    Raises:
        InputError: the file is damaged, or changed during ingest. Nothing is left behind.
        StoreError: the database's directory cannot be written. Nothing is left behind.
    """
    with private_directory(target) as staging:
        with (
            source.open(file.path) as reader,
            _ingest_connection(staging, content.size) as connection,
            interruptible(connection),
            explain_errors(file.path, staging),
            IngestTables(staging, connection) as written,
        ):
            if file.python_frames:
                _keep_frames(reader, file)
            wanted = _wanted(tables, columns)
            counts = _write_tables(
                connection,
                reader,
                file,
                wanted=wanted,
                pool=pool,
                written=written if tables is None else None,
                trace_id=trace_id,
                staging=staging,
                progress=progress,
            )
            description = reader.describe(written.ask if tables is None else None)
            with ingest_database(staging, os.getpid()).cursor() as own:
                description.notes += Audit(own, staging, counts, wanted).run(written.ask)
            write_trace_row(
                connection,
                staging,
                {
                    **file_columns(file, content),
                    **content_columns(description, counts),
                    **span_columns(connection, counts if tables is None else {}, staging),
                    "trace_id": trace_id,
                    "format": source.format,
                },
            )
            kernels = _kernels(connection, counts, staging)
        check_unchanged(file.path, content)
        for spill in staging.glob("*.spill"):
            shutil.rmtree(spill, ignore_errors=True)
        if not publish(staging, target):
            return None
    return IngestReport(
        path=file.path,
        trace_id=trace_id,
        name=unicode_name(file.name),
        status="ingested",
        format=source.format,
        kernels=kernels,
        notes=list(dict.fromkeys(description.notes)),
    )


def _write_tables(
    connection: duckdb.DuckDBPyConnection,
    reader: TraceReader,
    file: CaptureFile,
    *,
    wanted: Sequence[CanonicalTable],
    pool: WorkerPool,
    written: IngestTables | None,
    trace_id: str,
    staging: Path,
    progress: Callable[[str], None],
) -> dict[str, int]:
    # Queries about large tables start before the other tables are written.
    # Imported here, because asking needs no readers.
    from tbd_trace.sources.base import ParallelReader, SelectiveReader  # noqa: PLC0415
    from tbd_trace.store.parallel_ingest import write_in_parts  # noqa: PLC0415

    counts = {}
    if isinstance(reader, SelectiveReader):
        reader.select_tables([table.name for table in wanted])
    if isinstance(reader, ParallelReader):
        counts = write_in_parts(
            reader, wanted, pool=pool, trace_id=trace_id, staging=staging, progress=progress
        )
        if written is not None:
            for question in reader.questions(counts):
                written.begin(question, counts)
    for table in wanted:
        name = table.name
        if name not in counts:
            progress(name)
            with explain_errors(file.path, staging, name):
                select, types = _relation(connection, reader, file, name)
                counts[name] = write_table(
                    connection,
                    select,
                    table,
                    trace_id=trace_id,
                    file=whole_file(staging, name),
                    types=types,
                )
    return counts


def _keep_frames(reader: TraceReader, file: CaptureFile) -> None:
    from tbd_trace.sources.base import FrameReader  # noqa: PLC0415 - as above

    if not isinstance(reader, FrameReader):
        raise InputError(
            f"{file.path}: a file of this format has no frames of Python; leave out --python-frames"
        )
    reader.keep_python_frames()


def _wanted(
    tables: Collection[str] | None, columns: Collection[str] | None
) -> list[CanonicalTable]:
    # Lookup tables last: readers know then which rows the events refer to.
    selected = [t for t in event_tables().values() if tables is None or t.name in tables]
    ordered = sorted(selected, key=lambda table: (table.is_lookup, table.name))
    return [table.only(columns) for table in ordered]


@contextlib.contextmanager
def _ingest_connection(staging: Path, size: int) -> Iterator[duckdb.DuckDBPyConnection]:
    # A small file is read as fast by one thread, in 50 MB less.
    database = ingest_database(staging, os.getpid())
    try:
        with database.cursor() as connection:
            if size < _SMALL_BYTES:
                connection.execute("SET threads = 1")
            yield connection
    except BaseException:
        database.close()
        raise
    else:
        release(database)  # to the question that the file is read for
    finally:
        ingest_database.cache_clear()


def _relation(
    connection: duckdb.DuckDBPyConnection, reader: TraceReader, file: CaptureFile, table: str
) -> tuple[str | None, Mapping[str, str] | None]:
    # A SELECT, and its columns where they are known.
    from tbd_trace.sources.base import FixedColumnsReader  # noqa: PLC0415 - as above

    if table in CAPTURE_TABLES:
        return capture_relation(connection, file, table), None
    select = reader.relation(connection, table)
    if table == JOB_RANK:
        return rank_relation(file, select), None
    if select is None or not isinstance(reader, FixedColumnsReader):
        return select, None
    return select, reader.column_types(connection, table)


def _kernels(connection: duckdb.DuckDBPyConnection, counts: dict[str, int], staging: Path) -> int:
    # As `TraceStore.kernels`, which would open the new trace again.
    single = counts.get(KERNEL, 0)
    if not counts.get(KERNEL_TOTALS):
        return single
    rows = parquet_relation(table_files(staging, KERNEL_TOTALS))
    ((instances,),) = connection.execute(
        f"SELECT coalesce(sum(instances), 0) FROM ({rows})"
    ).fetchall()
    return single + int(instances)
