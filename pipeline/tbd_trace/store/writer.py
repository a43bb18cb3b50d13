"""Writing one trace: a Parquet file per canonical table, published together by one rename."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from tbd_trace.errors import InputError, StoreError, TbdTraceError
from tbd_trace.interrupts import interruptible
from tbd_trace.schema import CanonicalTable, canonical_tables
from tbd_trace.sources import Source, TraceDescription, TraceReader
from tbd_trace.sqltext import parquet_relation, string
from tbd_trace.store.capture import CaptureFile
from tbd_trace.version import __version__

_HASH_CHUNK = 1 << 22
_ATTEMPTS = 10
_WRITING_FAILS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)
_TIMED = {  # tables that say when the trace began and ended, and their time columns
    "kernel": ("start_ns", "end_ns"),
    "memcpy": ("start_ns", "end_ns"),
    "memset": ("start_ns", "end_ns"),
    "graph_launch": ("start_ns", "end_ns"),
    "api_call": ("start_ns", "end_ns"),
    "nvtx_range": ("start_ns", "end_ns"),
    "nvtx_mark": ("timestamp_ns", "timestamp_ns"),
    "gpu_sample": ("timestamp_ns", "timestamp_ns"),
}


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        InputError: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_HASH_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return digest.hexdigest()


def identity(file: CaptureFile, sha256: str) -> str:
    """Return the trace id: of the content, and of the capture's metadata where there is any."""
    salted = hashlib.sha256((sha256 + file.salt).encode()).hexdigest() if file.salt else sha256
    return salted[:12]


def write_trace(
    file: CaptureFile,
    source: Source,
    trace_id: str,
    sha256: str,
    target: Path,
    progress: Callable[[str], None],
) -> bool:
    """Write one profiler file as the directory ``target`` of Parquet files, atomically.

    Args:
        file: the profiler file and its capture's metadata.
        source: the file's format.
        trace_id: id of the trace.
        sha256: hash of the profiler file.
        target: directory to create, with its parents.
        progress: called with the name of each table before it is written.

    Returns:
        False if another process made ``target`` in the meantime (its result stands).

    Raises:
        InputError: the file is damaged. Nothing is left behind.
        StoreError: the database's directory cannot be written. Nothing is left behind.
    """
    with _staging(target) as staging:
        with (
            source.open(file.path) as reader,
            _ingest_connection(staging) as connection,
            _explained(file.path, staging),
        ):
            counts = {}
            for table in canonical_tables().values():
                if table.name != "trace":
                    progress(table.name)
                    with _explained(file.path, staging, table.name):
                        select = _relation(connection, reader, file, table.name)
                        counts[table.name] = _write_table(
                            connection, select, table, trace_id=trace_id, staging=staging
                        )
            description = reader.describe()
            row = _trace_row(
                file,
                description,
                counts,
                trace_id=trace_id,
                sha256=sha256,
                file_format=source.format,
            )
            row |= _span(connection, counts, staging)
            _write_trace_row(connection, row, staging)
        shutil.rmtree(staging / ".spill", ignore_errors=True)
        return _publish(staging, target)


@contextlib.contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Make a private directory beside the target; remove it whatever happens."""
    staging = _private_directory(target)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        for directory in (target.parent, target.parent.parent):
            with contextlib.suppress(OSError):
                directory.rmdir()  # made for nothing, if it is empty


def _private_directory(target: Path) -> Path:
    """Make a directory beside the target, and the directories above it."""
    for attempt in range(_ATTEMPTS):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        except FileNotFoundError as error:
            if attempt == _ATTEMPTS - 1:
                raise _unwritable(target.parent, error) from error
            # Another ingest failed and removed the directory while it was empty.
        except OSError as error:
            raise _unwritable(target.parent, error) from error
    raise AssertionError  # not reached


def _unwritable(directory: Path, error: OSError) -> StoreError:
    return StoreError(f"{directory}: cannot be written ({error.strerror})")


@contextlib.contextmanager
def _explained(source: Path, staging: Path, table: str | None = None) -> Iterator[None]:
    """Tell whether the profile or the database is to blame for an error of DuckDB.

    Raises:
        InputError: the profile is damaged.
        StoreError: the database's directory cannot be written.
    """
    try:
        with interruptible():
            yield
    except duckdb.Error as error:
        text = str(error)
        failed = next((os.strerror(n) for n in _WRITING_FAILS if os.strerror(n) in text), None)
        if failed and staging.name in text:
            raise StoreError(f"{staging.parent}: cannot be written ({failed})") from error
        raise InputError(_reason(text, source, table)) from error


def _publish(staging: Path, target: Path) -> bool:
    try:
        staging.rename(target)
    except OSError as error:
        if target.is_dir():  # another process was first; both wrote the same content
            return False
        raise _unwritable(target, error) from error
    target.chmod(0o755 & ~_umask())
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def _ingest_connection(staging: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the scratch database of one ingest; it spills to disk beside its result."""
    with duckdb.connect(config={"temp_directory": str(staging / ".spill")}) as connection:
        yield connection


def _relation(
    connection: duckdb.DuckDBPyConnection, reader: TraceReader, file: CaptureFile, table: str
) -> str | None:
    """Return the SELECT of one canonical table, from the capture's metadata or from the file."""
    if table == "layer_definition":
        return _layer_relation(connection, file)
    return reader.relation(connection, table)


def _write_table(
    connection: duckdb.DuckDBPyConnection,
    select: str | None,
    table: CanonicalTable,
    *,
    trace_id: str,
    staging: Path,
) -> int:
    """Write one canonical table and return its number of rows."""
    given = _column_names(connection, select) if select else set()
    rows = f"FROM ({select})" if select else "WHERE false"
    path = string(str(staging / f"{table.name}.parquet"))
    done = connection.execute(
        f"COPY (SELECT {string(trace_id)} AS trace_id, {_projected(table, given)} {rows}) "
        f"TO {path} (FORMAT parquet, COMPRESSION zstd)"
    )
    return int(done.fetchall()[0][0])


def _column_names(connection: duckdb.DuckDBPyConnection, select: str) -> set[str]:
    return {row[0] for row in connection.execute(f"DESCRIBE {select}").fetchall()}


def _reason(text: str, source: Path, table: str | None) -> str:
    """Return what a reader itself said about a damaged file, else DuckDB's first line."""
    # DuckDB turns an exception of a stream into text; the reader's own message is in it.
    said = re.search(r"InputError: (.+)", text)
    if said:
        return said[1]
    what = f"its {table} rows" if table else "it"
    return f"{source}: {what} cannot be read ({text.splitlines()[0]})"


def _projected(table: CanonicalTable, given: set[str]) -> str:
    """Return the canonical columns in order, cast to their types, NULL where not given."""
    return ", ".join(
        f"CAST({column.name if column.name in given else 'NULL'} AS {column.type}) AS {column.name}"
        for column in table.columns
        if column.name != "trace_id"
    )


def _layer_relation(connection: duckdb.DuckDBPyConnection, file: CaptureFile) -> str | None:
    if not file.layers:
        return None
    integers = ("parameters", "weight_bytes", "gradient_bytes", "feature_map_bytes")
    numbers = ("forward_flop", "backward_flop")
    rows = [
        {"layer": layer["name"], "position": position, "layer_type": layer.get("type")}
        | {name: layer.get(name) for name in (*integers, *numbers, "precision")}
        for position, layer in enumerate(file.layers)
    ]
    schema = pa.schema(
        [("layer", pa.string()), ("position", pa.int32()), ("layer_type", pa.string())]
        + [(name, pa.int64()) for name in integers]
        + [(name, pa.float64()) for name in numbers]
        + [("precision", pa.string())]
    )
    try:
        connection.register("layers_json", pa.Table.from_pylist(rows, schema=schema))
    except pa.ArrowException as error:
        raise InputError(f"{file.path.parent / 'layers.json'}: {error}") from error
    return "SELECT * FROM layers_json"


def _trace_row(
    file: CaptureFile,
    description: TraceDescription,
    counts: dict[str, int],
    *,
    trace_id: str,
    sha256: str,
    file_format: str,
) -> dict[str, object]:
    return {
        "trace_id": trace_id,
        "name": file.name,
        "path": str(file.path.resolve()),
        "sha256": sha256,
        "file_bytes": file.path.stat().st_size,
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


def _span(
    connection: duckdb.DuckDBPyConnection, counts: dict[str, int], staging: Path
) -> dict[str, int | None]:
    """Return the earliest and the latest time over all tables."""
    parts = [
        f"SELECT min({start}) AS s, max({end}) AS e FROM read_parquet("
        f"{string(str(staging / table))} || '.parquet')"
        for table, (start, end) in _TIMED.items()
        if counts.get(table)
    ]
    if not parts:
        return {"start_ns": None, "end_ns": None}
    union = " UNION ALL ".join(parts)
    start, end = connection.execute(f"SELECT min(s), max(e) FROM ({union})").fetchall()[0]
    return {"start_ns": start, "end_ns": end}


def _write_trace_row(
    connection: duckdb.DuckDBPyConnection, row: dict[str, object], staging: Path
) -> None:
    table = canonical_tables()["trace"]
    columns = ", ".join(
        f"CAST(${column.name} AS {column.type}) AS {column.name}" for column in table.columns
    )
    path = string(str(staging / "trace.parquet"))
    connection.execute(f"CREATE TEMP TABLE trace_row AS SELECT {columns}", row)
    connection.execute(f"COPY trace_row TO {path} (FORMAT parquet, COMPRESSION zstd)")
