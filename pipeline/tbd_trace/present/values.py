"""Format values for tables: significant digits, units, NULL and safe text."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
from rich.cells import cell_len

from tbd_trace.present.terminal import printable

NULL = "\N{EN DASH}"
"""Text of NULL in tables."""

_SIGNIFICANT = 4  # digits of a number
_EVEN_DECIMALS = 3  # trailing zeros after these decimals are removed
_SMALLEST, _LARGEST = 1e-6, 1e15  # numbers outside are shown with an exponent
_TINY_SHARE = "<0.01"
_PCT_DECIMALS = 2
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs")),
    "byte": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")),
    "byte/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")),
    "FLOP": ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")),
    "FLOP/s": ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz")),
}
_UNIT_ALIASES = {"bytes": "byte", "B": "byte", "B/s": "byte/s", "bytes/s": "byte/s", "flop": "FLOP"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column with a text per row."""

    name: str
    cells: list[str]
    numeric: bool  # aligned to the right


def columns(frame: pl.DataFrame, whole: Collection[str] | None = None) -> list[Column]:
    """Format the columns of a frame.

    Args:
        whole: columns of whole numbers of the complete frame (:func:`whole_columns`) if ``frame``
            is a slice of it.
    """
    if whole is None:
        whole = whole_columns(frame)
    return [_column(frame[name], whole=name in whole) for name in frame.columns]


def whole_columns(frame: pl.DataFrame) -> frozenset[str]:
    """Return the names of the columns that contain only whole numbers."""
    return frozenset(
        name
        for name, dtype in frame.schema.items()
        if dtype.is_integer()
        or (
            (dtype.is_float() or isinstance(dtype, pl.Decimal))
            and _are_whole(frame[name].drop_nulls().cast(pl.Float64))
        )
    )


def _are_whole(numbers: pl.Series) -> bool:
    finite = numbers.filter(numbers.is_finite())
    return bool((finite == finite.floor()).all())


def _column(series: pl.Series, *, whole: bool) -> Column:
    values = series.to_list()
    if series.dtype == pl.String:
        shown = {value: text(value) for value in series.unique().to_list()}  # names repeat
        return Column(series.name, [shown[value] for value in values], numeric=False)
    if not (series.dtype.is_numeric() or isinstance(series.dtype, pl.Decimal)):
        return Column(series.name, [text(value) for value in values], numeric=False)
    if series.dtype.is_integer():
        grouped = "" if is_identifier(series.name) else ","
        cells = [NULL if value is None else f"{value:{grouped}}" for value in values]
        return Column(series.name, cells, numeric=True)
    number = _percentage if series.name.endswith("_pct") and not whole else _number
    cells = [NULL if value is None else number(float(value), whole) for value in values]
    return Column(series.name, cells, numeric=True)


def is_identifier(name: str) -> bool:
    """Return True if a column holds keys, which are numbers but not quantities."""
    return name in {"id", "pid", "tid"} or name.endswith("_id")


def _percentage(number: float, whole: bool) -> str:
    if 0 < abs(number) < 10**-_PCT_DECIMALS:
        return _TINY_SHARE if number > 0 else f"-{_TINY_SHARE}"
    if not math.isfinite(number) or abs(number) >= _LARGEST:
        return _number(number, whole)
    return f"{number:,.{_PCT_DECIMALS}f}"


def _number(number: float, whole: bool) -> str:
    # Four significant digits, and all digits before the decimal point.
    size = abs(number)
    if not math.isfinite(number) or size >= _LARGEST:
        return f"{number:.4g}"
    if whole or number == 0:
        return f"{number:,.0f}"
    if size < _SMALLEST:
        return f"{number:.2g}"
    decimals = max(0, _SIGNIFICANT - 1 - math.floor(math.log10(size)))
    shown = f"{number:,.{decimals}f}"
    spare = decimals - _EVEN_DECIMALS
    return shown if spare <= 0 else shown[:-spare] + shown[-spare:].rstrip("0")


def text(value: Any) -> str:
    """Format a value that is not a number as one line without control characters."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, pl.Series):
        value = value.to_list()
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(text(item) for item in value) or "none"
    if isinstance(value, list | dict):
        return json.dumps(plain(value), ensure_ascii=False)
    return printable(str(value))


def plain(value: Any) -> Any:
    """Convert a value to types of JSON; NaN and infinities become None."""
    match value:
        case dict():
            plain_value: Any = {str(key): plain(item) for key, item in value.items()}
        case pl.Series() | list() | tuple():
            plain_value = [plain(item) for item in value]
        case float():
            plain_value = value if math.isfinite(value) else None
        case Decimal():
            plain_value = int(value) if value == value.to_integral_value() else float(value)
        case date() | time():  # datetime is a subclass of date
            plain_value = value.isoformat()
        case timedelta():
            plain_value = value.total_seconds()
        case bytes():
            plain_value = value.hex()
        case _:
            plain_value = value
    return plain_value


def with_unit(cell: str, value: Any, unit: str | None) -> str:
    """Append the unit to a cell, and the value in a larger unit: ``1,913,000 ns (1.913 ms)``."""
    if unit is None or not isinstance(value, int | float | Decimal):
        return cell
    divisor, scaled = scale(abs(float(value)), unit)
    reading = "" if scaled == unit else f" ({float(value) / divisor:.{_SIGNIFICANT}g} {scaled})"
    return f"{cell} {unit}{reading}"


def scale(size: float, unit: str) -> tuple[float, str]:
    """Return divisor and name of the largest multiple of a unit that does not exceed ``size``.

    Units without multiples (other than ns, byte, byte/s, FLOP, FLOP/s and Hz) give 1 and the unit.
    """
    for divisor, name in _SCALES.get(_UNIT_ALIASES.get(unit, unit), ()):
        if divisor <= size < math.inf:
            return divisor, name
    return 1, unit


def scaled(size: float, unit: str, sign: str = "") -> str:
    """Format a number with the suitable multiple of its unit, such as ``1.5 GiB``."""
    divisor, name = scale(abs(size), unit)
    return f"{size / divisor:{sign}.4g} {name}"


def capitalized(words: str) -> str:
    """Return words as the start of a sentence; unlike ``str.capitalize``, names keep their case."""
    return words[:1].upper() + words[1:]


def width_of(text: str) -> int:
    """Return the width of a text in terminal cells."""
    # The table of character widths is needed for few texts.
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def widest(texts: Sequence[str]) -> int:
    """Return the width of the widest text in terminal cells."""
    return max(map(len if are_plain(texts) else width_of, texts), default=0)


def are_plain(texts: Sequence[str]) -> bool:
    """Return True if each character of the texts fills one terminal cell."""
    return all(map(str.isascii, texts)) and all(map(str.isprintable, texts))
