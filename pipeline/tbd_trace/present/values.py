"""How values read in tables for people: aligned numbers, a mark for NULL, safe text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
from rich.cells import cell_len

from tbd_trace.present import printable

NULL = "\N{EN DASH}"
"""What a table shows for NULL."""

_SIGNIFICANT = 4
_MAX_DECIMALS = 3
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
    """One column as text.

    Attributes:
        name: column name.
        cells: one text per row.
        numeric: whether it is read as numbers, hence aligned to the right.
    """

    name: str
    cells: list[str]
    numeric: bool


def columns(frame: pl.DataFrame, decimals: Mapping[str, int] | None = None) -> list[Column]:
    """Return the columns of a frame as text; the decimals of a column agree with one another.

    Args:
        frame: the rows.
        decimals: decimals of the columns with any, of the frame that these rows are a part of
            (:func:`decimals_of`); None means that they are all.
    """
    if decimals is None:
        decimals = decimals_of(frame)
    return [_column(frame[name], decimals.get(name, 0)) for name in frame.columns]


def decimals_of(frame: pl.DataFrame) -> dict[str, int]:
    """Return how many decimals the columns show whose numbers need not be whole, by name."""
    return {
        name: _decimals(float(value) for value in frame[name].drop_nulls())
        for name, dtype in frame.schema.items()
        if dtype.is_float() or isinstance(dtype, pl.Decimal)
    }


def _column(series: pl.Series, decimals: int) -> Column:
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
    numbers = [None if value is None else float(value) for value in values]
    return Column(series.name, _numbers(numbers, decimals), numeric=True)


def is_identifier(name: str) -> bool:
    """Tell whether a column holds keys: numbers that are not quantities."""
    return name in {"id", "pid", "tid"} or name.endswith("_id")


def _decimals(numbers: Iterable[float]) -> int:
    """Return the decimals that show the largest number to four digits and the smallest to two."""
    sizes = [abs(number) for number in numbers if number and math.isfinite(number)]
    if not sizes or all(size.is_integer() for size in sizes):
        return 0
    for_largest = _SIGNIFICANT - 1 - math.floor(math.log10(max(sizes)))
    for_smallest = 1 - math.floor(math.log10(min(sizes)))
    return max(0, min(_MAX_DECIMALS, max(for_largest, for_smallest)))


def _numbers(numbers: Iterable[float | None], decimals: int) -> list[str]:
    least, form = 0.5 * 10.0**-decimals, f",.{decimals}f"
    return [
        NULL
        if number is None
        else format(number, form)
        if least <= abs(number) < 1e15 or number == 0
        else _extreme(number)
        for number in numbers
    ]


def _extreme(number: float) -> str:
    """Return a number that is too small or too large for a column's decimals, or none at all."""
    return f"{number:.2g}" if abs(number) < 1 else f"{number:.4g}"


def text(value: Any) -> str:
    """Return one value that is not a number as a single line that is safe on a terminal."""
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
    """Return a value as JSON can hold it: exact where it can be, NaN and infinities as None."""
    match value:
        case dict():
            plain_value: Any = {str(key): plain(item) for key, item in value.items()}
        case pl.Series() | list() | tuple():
            plain_value = [plain(item) for item in value]
        case float():
            plain_value = value if math.isfinite(value) else None
        case Decimal():
            plain_value = int(value) if value == value.to_integral_value() else float(value)
        case date() | time():  # a datetime is a date
            plain_value = value.isoformat()
        case timedelta():
            plain_value = value.total_seconds()
        case bytes():
            plain_value = value.hex()
        case _:
            plain_value = value
    return plain_value


def with_unit(cell: str, value: Any, unit: str | None) -> str:
    """Return a cell with its unit, and a scaled reading where the plain number is hard to read.

    Args:
        cell: the value as a table shows it.
        value: the value.
        unit: its unit, None when it has none.
    """
    if unit is None or not isinstance(value, int | float | Decimal):
        return cell
    divisor, scaled = scale(abs(float(value)), unit)
    reading = "" if scaled == unit else f" ({float(value) / divisor:.{_SIGNIFICANT}g} {scaled})"
    return f"{cell} {unit}{reading}"


def scale(size: float, unit: str) -> tuple[float, str]:
    """Return the divisor and the unit in which a size reads well, 1 and the unit itself if none.

    Args:
        size: the size, not negative.
        unit: its unit: ns, byte, byte/s, FLOP, FLOP/s or Hz are scaled, others are not.
    """
    for divisor, name in _SCALES.get(_UNIT_ALIASES.get(unit, unit), ()):
        if divisor <= size < math.inf:
            return divisor, name
    return 1, unit


def shorten(name: str, width: int) -> str:
    """Return a name in at most ``width`` cells of a terminal (at least 1), its middle left out.

    Kernel names differ at both ends: the function in front, its template arguments behind.
    """
    if width_of(name) <= width:
        return name
    front_width = max(0, width - 1) * 2 // 3
    back_width = max(0, width - 1) - front_width
    front, back = name[:front_width], name[len(name) - back_width :]
    while width_of(front) > front_width:  # characters that fill two cells
        front = front[:-1]
    while width_of(back) > back_width:
        back = back[1:]
    return f"{front}…{back}"


def width_of(text: str) -> int:
    """Return the width of a text on a terminal, in cells; most text needs no table of widths."""
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def widest(texts: Sequence[str]) -> int:
    """Return the width of the widest text on a terminal, in cells."""
    return max(map(len if are_plain(texts) else width_of, texts), default=0)


def are_plain(texts: Sequence[str]) -> bool:
    """Tell whether each character of the texts fills one cell: :func:`width_of` is slower."""
    return all(map(str.isascii, texts)) and all(map(str.isprintable, texts))
