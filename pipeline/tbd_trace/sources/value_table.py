"""Make tables of a few Python values in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb


def create_value_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Mapping[str, tuple[str, Sequence[Any]]],
) -> None:
    """Create or replace a temporary table.

    Not from Arrow: pyarrow takes 0.2 s to import, as long as a trace of 100,000 events to read.

    Args:
        columns: type in DuckDB, and values, by name, all of one length. Values out of the range
            of the type become NULL.
    """
    values = {f"values_{number}": cells for number, (_, cells) in enumerate(columns.values())}
    selected = ", ".join(
        f"unnest(TRY_CAST(${parameter} AS {kind}[])) AS {column}"
        for parameter, (column, (kind, _)) in zip(values, columns.items(), strict=True)
    )
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {selected}", values)
