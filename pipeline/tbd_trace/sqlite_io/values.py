"""Values of SQLite, which does not enforce types, as Arrow arrays of one type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.sqltext import identifier

REPEATED = "texts that repeat the id of another text: {:,}; the first of each id counts"
_MISFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)


def as_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build an Arrow array, turning values that do not fit its type into NULL."""
    try:
        # Arrow would cut the fractions off.
        if not (pa.types.is_integer(kind) and float in set(map(type, values))):
            return pa.array(values, type=kind)
    except _MISFIT:
        pass
    return pa.array([_fit(value, kind) for value in values], type=kind)


def _fit(value: Any, kind: pa.DataType) -> Any:
    """Return the value if it fits the Arrow type, converted where nothing is lost, else None."""
    if value is None:
        return None
    candidates: list[Any] = [value]
    if kind == pa.string():
        candidates = [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)]
    elif pa.types.is_integer(kind) and isinstance(value, float):
        candidates = [int(value)] if value.is_integer() else []
    elif isinstance(value, str) and not pa.types.is_binary(kind):
        candidates = _numbers(value, exact=pa.types.is_integer(kind))
    for candidate in candidates:
        try:
            pa.scalar(candidate, type=kind)
        except _MISFIT:
            continue
        return candidate
    return None


def _numbers(text: str, *, exact: bool) -> list[Any]:
    """Return the numeric readings of a text, the exact one first; only whole numbers if exact."""
    readings: list[Any] = []
    for convert in (int, float):
        try:
            number = convert(text)
        except ValueError:
            continue
        if not exact or isinstance(number, int):
            readings.append(number)
        elif number.is_integer():
            readings.append(int(number))
    return readings


def first_of_each(connection: duckdb.DuckDBPyConnection, table: str, key: str) -> int:
    """Keep the first row of each key in a temporary table, and return how many are removed.

    What joins such a table would otherwise be multiplied.
    """
    name, column = identifier(table), identifier(key)
    ((repeated,),) = connection.execute(
        f"SELECT count({column}) - count(DISTINCT {column}) FROM {name}"
    ).fetchall()
    if repeated:
        first = f"SELECT min(rowid) FROM {name} GROUP BY {column}"
        connection.execute(f"DELETE FROM {name} WHERE rowid NOT IN ({first})")
    return int(repeated)
