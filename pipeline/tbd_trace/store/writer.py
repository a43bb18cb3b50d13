"""Write one trace: Parquet files of its canonical tables, published by one rename."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import (
    CATALOGUE,
    JOB_RANK,
    KERNEL,
    KERNEL_TOTALS,
    CanonicalTable,
    canonical_tables,
    event_tables,
    timed_tables,
)
from tbd_trace.runtime.duckdb_connection import ingest_database, release
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import parquet_relation, string
from tbd_trace.store.audit import Audit
from tbd_trace.store.capture import CaptureFile
from tbd_trace.store.capture_tables import CAPTURE_TABLES, capture_relation
from tbd_trace.store.content import Content, check_unchanged
from tbd_trace.store.identified_file import IngestReport
from tbd_trace.store.ingest_tables import IngestTables
from tbd_trace.store.ranks import rank_relation
from tbd_trace.store.staging import explain_errors, private_directory, publish
from tbd_trace.store.tables import FAST_PARQUET, table_files, whole_file, write_table
from tbd_trace.version import __version__

if TYPE_CHECKING:
    from tbd_trace.runtime.worker_pool import WorkerPool
    from tbd_trace.sources.base import Source, TraceDescription, TraceReader

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
            IngestTables(staging) as written,
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
            span = _span(connection, counts if tables is None else {}, staging)
            row = _trace_row(
                file,
                description,
                counts,
                content=content,
                trace_id=trace_id,
                file_format=source.format,
            )
            _write_trace_row(connection, row | span, staging)
            kernels = _kernels(connection, counts, staging)
        check_unchanged(file.path, content)
        for spill in staging.glob("*.spill"):
            shutil.rmtree(spill, ignore_errors=True)
        if not publish(staging, target):
            return None
    return IngestReport(
        path=file.path,
        trace_id=trace_id,
        name=_unicode(file.name),
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
                counts[name] = write_table(
                    connection,
                    _relation(connection, reader, file, name),
                    table,
                    trace_id=trace_id,
                    file=whole_file(staging, name),
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
    found = [t for t in event_tables().values() if tables is None or t.name in tables]
    ordered = sorted(found, key=lambda table: (table.is_lookup, table.name))
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
) -> str | None:
    if table in CAPTURE_TABLES:
        return capture_relation(connection, file, table)
    if table == JOB_RANK:
        return rank_relation(file, reader.relation(connection, table))
    return reader.relation(connection, table)


def _trace_row(
    file: CaptureFile,
    description: TraceDescription,
    counts: dict[str, int],
    *,
    content: Content,
    trace_id: str,
    file_format: str,
) -> dict[str, object]:
    return {
        "trace_id": trace_id,
        "name": _unicode(file.name),
        "path": _unicode(str(file.path.resolve())),
        "sha256": content.sha256,
        "file_bytes": content.size,
        "format": file_format,
        "tool": description.tool,
        "tool_version": description.tool_version,
        "export_version": description.export_version,
        "schema_version": description.schema_version,
        "kind": description.kind,
        "capture_id": file.capture_id,
        "capture": json.dumps(file.metadata, sort_keys=True) if file.metadata else None,
        "batch_size": file.batch_size,
        "utc_start_ns": description.utc_start_ns,
        "holds": sorted(name for name, rows in counts.items() if rows),
        "lacks": sorted(name for name, rows in counts.items() if not rows),
        "notes": list(dict.fromkeys(description.notes)),
        "ingested_at": datetime.now(UTC).replace(tzinfo=None),
        "ingested_by": __version__,
    }


def _unicode(name: str) -> str:
    # File names can hold bytes that are not UTF-8.
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _span(
    connection: duckdb.DuckDBPyConnection, counts: dict[str, int], staging: Path
) -> dict[str, int | None]:
    # From the statistics of the Parquet files.
    timed = [t for t in timed_tables().values() if t.bounds_trace and counts.get(t.name)]
    if not timed:
        return {"start_ns": None, "end_ns": None}
    files = [str(file) for table in timed for file in table_files(staging, table.name)]
    ((start, end),) = connection.execute(
        """
        SELECT
            min(stats_min_value::BIGINT) FILTER (path_in_schema IN $starts),
            max(stats_max_value::BIGINT) FILTER (path_in_schema IN $ends)
        FROM parquet_metadata($files)
        WHERE path_in_schema IN $starts OR path_in_schema IN $ends
        """,
        {"files": files, "starts": [t.start for t in timed], "ends": [t.end for t in timed]},
    ).fetchall()
    return {"start_ns": start, "end_ns": end}


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


def _write_trace_row(
    connection: duckdb.DuckDBPyConnection, row: dict[str, object], staging: Path
) -> None:
    table = canonical_tables()[CATALOGUE]
    columns = ", ".join(
        f"CAST(${column.name} AS {column.type}) AS {column.name}" for column in table.columns
    )
    path = string(str(whole_file(staging, CATALOGUE)))
    connection.execute(f"CREATE TEMP TABLE trace_row AS SELECT {columns}", row)
    connection.execute(f"COPY trace_row TO {path} ({FAST_PARQUET})")
