"""Convert SQLite values, whose type SQLite does not enforce, to Arrow arrays of one type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_MISFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)


def as_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an Arrow array; a value that cannot be converted to its type is NULL."""
    try:
        # pyarrow truncates floats to integers without an error.
        if not (pa.types.is_integer(kind) and float in set(map(type, values))):
            return pa.array(values, type=kind)
    except _MISFIT:
        pass
    return pa.array([_converted(value, kind) for value in values], type=kind)


def _converted(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    candidates: list[Any] = [value]
    if kind == pa.string():
        candidates = [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)]
    elif pa.types.is_integer(kind) and isinstance(value, float):
        candidates = [int(value)] if value.is_integer() else []
    elif isinstance(value, str) and not pa.types.is_binary(kind):
        candidates = _parsed_numbers(value, exact=pa.types.is_integer(kind))
    for candidate in candidates:
        try:
            pa.scalar(candidate, type=kind)
        except _MISFIT:
            continue
        return candidate
    return None


def _parsed_numbers(text: str, *, exact: bool) -> list[Any]:
    # int() first: a float would round integers above 2^53.
    parsed: list[Any] = []
    for convert in (int, float):
        try:
            number = convert(text)
        except ValueError:
            continue
        if not exact or isinstance(number, int):
            parsed.append(number)
        elif number.is_integer():
            parsed.append(int(number))
    return parsed
