"""DuckDB's rows as polars frames."""

from __future__ import annotations

import re

import duckdb
import polars as pl

from tbd_trace.arrow_stream import ArrowStream
from tbd_trace.sqltext import identifier

_TEXT = re.compile(r"INTERVAL|UNION|^ENUM\(.*\)$")
_FROM_THE_STREAM = "got external error: "
_ERRORS = {"Out of Memory Error": duckdb.OutOfMemoryException, "IO Error": duckdb.IOException}


def frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Return the rows of a relation; intervals, unions and enumerations as text.

    ``relation.pl()`` would import pyarrow, which takes longer than most questions. It numbers
    columns of the same name.

    Raises:
        duckdb.Error: they cannot be computed.
    """
    is_numbered = len(set(relation.columns)) < len(relation.columns)
    kinds = [str(kind) for kind in relation.types]
    if not is_numbered and any(map(_TEXT.search, kinds)):
        relation = relation.project(
            ", ".join(
                f"CAST({name} AS VARCHAR) AS {name}" if _TEXT.search(kind) else name
                for name, kind in zip(map(identifier, relation.columns), kinds, strict=True)
            )
        )
    try:
        if is_numbered:
            numbered: pl.DataFrame = relation.pl()
            return numbered.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
        return pl.DataFrame(ArrowStream(relation.__arrow_c_stream__()))
    except pl.exceptions.ComputeError as error:
        text = str(error).removeprefix(_FROM_THE_STREAM)
        raise _ERRORS.get(text.partition(":")[0], duckdb.Error)(text) from error
