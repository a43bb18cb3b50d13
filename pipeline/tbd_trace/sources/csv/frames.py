"""Convert tables of text to polars frames, and frames to canonical tables in DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import duckdb
import polars as pl
import pyarrow as pa

from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sources.csv.text import Fields, Table
from tbd_trace.sources.csv.values import blank_as_null, number
from tbd_trace.sources.demangle import demangle, is_mangled, short_name

# Bounds on the memory of a batch; raw pages of Nsight Compute have hundreds of columns.
_CELLS_PER_BATCH = 200_000
_ROWS_PER_BATCH = 50_000
_TYPES: dict[str, tuple[type[pl.DataType], pa.DataType]] = {
    "VARCHAR": (pl.String, pa.string()),
    "BIGINT": (pl.Int64, pa.int64()),
    "INTEGER": (pl.Int32, pa.int32()),
    "DOUBLE": (pl.Float64, pa.float64()),
    "BOOLEAN": (pl.Boolean, pa.bool_()),
}


def frames(table: Table, keep_together: str | None = None) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table as frames of text columns, of bounded size.

    Args:
        keep_together: column; consecutive rows with the same value are in the same frame.
    """
    size = max(1, min(_ROWS_PER_BATCH, _CELLS_PER_BATCH // max(1, len(table.header))))
    key = table.header.index(keep_together) if keep_together in table.header else None
    batch: list[Fields] = []
    for row in table.rows:
        if len(batch) >= size and (key is None or batch[-1][key] != row[key]):
            yield _frame(table.header, batch)
            batch = []
        batch.append(row)
    if batch:
        yield _frame(table.header, batch)


def _frame(header: Fields, rows: Sequence[Fields]) -> pl.DataFrame:
    columns = zip(*rows, strict=True)
    # A dict keeps repeated column names once.
    return pl.DataFrame(
        {name: pl.Series(column, dtype=pl.String) for name, column in zip(header, columns)}  # noqa: B905
    )


def cell(frame: pl.DataFrame, column: str) -> pl.Expr:
    """Return a text column; blank cells and absent columns are NULL."""
    if column not in frame.columns:
        return pl.lit(None, pl.String)
    return blank_as_null(pl.col(column))


def integer(frame: pl.DataFrame, column: str) -> pl.Expr:
    """Return a column parsed as int64; values beyond 64 bits are NULL."""
    return number(cell(frame, column)).cast(pl.Int64, strict=False)


def register(
    connection: duckdb.DuckDBPyConnection, table: str, frames: Iterable[pl.DataFrame]
) -> str:
    """Register frames as a stream and return a SELECT over it, which can be read once.

    Args:
        table: canonical table; columns that the frames lack become NULL.
        frames: rows of the table; values that do not fit the column's type become NULL.
    """
    types = {
        column.name: _TYPES[column.type]
        for column in canonical_tables()[table].columns
        if column.name != "trace_id"
    }
    schema = pa.schema([(name, arrow) for name, (_, arrow) in types.items()])
    casts = {name: frame_type for name, (frame_type, _) in types.items()}
    reader = pa.RecordBatchReader.from_batches(schema, _batches(frames, schema, casts))
    connection.register(f"csv_{table}", reader)
    return f"SELECT * FROM csv_{table}"


def _batches(
    frames: Iterable[pl.DataFrame], schema: pa.Schema, casts: dict[str, type[pl.DataType]]
) -> Iterator[pa.RecordBatch]:
    for frame in frames:
        if frame.height:
            columns = [
                (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind, strict=False)
                for name, kind in casts.items()
            ]
            yield from (
                frame.select(
                    column.alias(name) for name, column in zip(casts, columns, strict=True)
                )
                .to_arrow()
                .cast(schema)
                .combine_chunks()
                .to_batches()
            )


def numbered(table: str, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Add column `TABLE_id`, counted from 0, if only the canonical table has it."""
    column, first = f"{table}_id", 0
    wanted = any(column == known.name for known in canonical_tables()[table].columns)
    for frame in frames:
        lacks = wanted and column not in frame.columns
        yield frame.with_row_index(column, first) if lacks else frame
        first += frame.height


def total_by_name(select: str) -> str:
    """Return a SELECT that adds up the rows of ``kernel_aggregate`` by device and kernel name."""
    # Summaries can list a name once per process or launch configuration.
    return (
        "SELECT device_id, name, sum(instances) AS instances, sum(total_ns) AS total_ns, "
        "sum(total_ns) / sum(instances) AS mean_ns, min(min_ns) AS min_ns, max(max_ns) AS max_ns "
        f"FROM ({select}) GROUP BY device_id, name"
    )


def with_kernel_names(frame: pl.DataFrame, printed: str) -> pl.DataFrame:
    """Add ``name``, ``short_name`` and ``mangled_name`` of the kernels in column `printed`."""
    names = frame.get_column(printed).unique().drop_nulls().to_list()
    texts_by_name = {name: _kernel_names(name) for name in names}
    return frame.with_columns(
        pl.col(printed)
        .replace_strict(
            {name: texts[index] for name, texts in texts_by_name.items()},
            default=None,
            return_dtype=pl.String,
        )
        .alias(column)
        for index, column in enumerate(("name", "short_name", "mangled_name"))
    )


@lru_cache(maxsize=65_536)
def _kernel_names(printed: str) -> tuple[str, str, str | None]:
    name = demangle(printed)
    return name, short_name(name), printed if is_mangled(printed) else None
