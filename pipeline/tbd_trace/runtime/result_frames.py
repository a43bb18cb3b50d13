"""Convert DuckDB relations to polars frames."""

# polars is imported for the first frame.
# ruff: noqa: PLC0415
from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.runtime.arrow_stream import ArrowStream
from tbd_trace.sqltext import identifier

if TYPE_CHECKING:
    import polars as pl

_TEXT = re.compile(r"INTERVAL|UNION|^ENUM\(.*\)$")
_FROM_THE_STREAM = "got external error: "
_ERRORS = {"Out of Memory Error": duckdb.OutOfMemoryException, "IO Error": duckdb.IOException}


def prefetch_polars() -> None:
    """Import polars in a thread: the import takes 0.1 s, and DuckDB often uses one thread."""
    if "polars" not in sys.modules:
        threading.Thread(target=import_module, args=("polars",)).start()


def frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Return the rows of a relation; intervals, unions and enumerations as text.

    Not by ``relation.pl()``: importing pyarrow takes longer than most queries. Columns of the
    same name are numbered.

    Raises:
        duckdb.Error: the rows cannot be computed.
    """
    if _is_numbered(relation):
        import polars as pl

        numbered: pl.DataFrame = relation.pl()
        return numbered.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    stream = _stream(relation)
    import polars as pl

    try:
        return pl.DataFrame(stream)
    except pl.exceptions.ComputeError as error:
        raise _as_duckdb_says(error) from error


def frames(relation: duckdb.DuckDBPyRelation) -> Iterator[pl.DataFrame]:
    """Yield the rows of a relation in at least one frame of some 100,000 rows."""
    if _is_numbered(relation):
        yield frame(relation)
        return
    stream = _stream(relation)
    import polars as pl
    import pyarrow as pa

    is_empty = True
    try:
        reader = pa.RecordBatchReader.from_stream(stream)
        for batch in reader:
            is_empty = False
            yield pl.DataFrame(pa.RecordBatchReader.from_batches(reader.schema, [batch]))
    except (OSError, pa.ArrowException) as error:
        raise _as_duckdb_says(error) from error
    if is_empty:
        yield frame(relation.limit(0))


def _is_numbered(relation: duckdb.DuckDBPyRelation) -> bool:
    return len(set(relation.columns)) < len(relation.columns)


def _stream(relation: duckdb.DuckDBPyRelation) -> ArrowStream:
    prefetch_polars()
    kinds = [str(kind) for kind in relation.types]
    if any(map(_TEXT.search, kinds)):
        relation = relation.project(
            ", ".join(
                f"CAST({name} AS VARCHAR) AS {name}" if _TEXT.search(kind) else name
                for name, kind in zip(map(identifier, relation.columns), kinds, strict=True)
            )
        )
    return ArrowStream(relation.__arrow_c_stream__())


def _as_duckdb_says(error: Exception) -> duckdb.Error:
    # Restores DuckDB's error that passed through a stream.
    text = str(error).removeprefix(_FROM_THE_STREAM)
    return _ERRORS.get(text.partition(":")[0], duckdb.Error)(text)
