"""Parse printed values: units, thousands separators, utilization levels, missing values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import polars as pl


class Unit(NamedTuple):
    """Conversion of a printed number to its base unit."""

    factor: float  # multiplier
    name: str | None  # base unit as in ``kernel_metric.unit``; None if no unit is printed


_NANOSECONDS = {
    "s": 1e9, "second": 1e9, "ms": 1e6, "msecond": 1e6,
    "us": 1e3, "usecond": 1e3, "ns": 1.0, "nsecond": 1.0,
}  # fmt: skip
_EXPONENT = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_NCU_PREFIXED = re.compile(r"([KMGTP]?)(byte|hz|inst|sector|request|warp|thread|cycle|B)")

# The tools disagree about prefixes, as their raw data shows: nvprof prints 12,917,760 bytes as
# 12.319336 MB (MB = 1024^2 bytes), Nsight Compute 887,817,536 bytes as 0.887818 Gbyte (10^9 bytes).
NVPROF_UNITS: dict[str, Unit] = {
    "": Unit(1.0, None),
    "%": Unit(1.0, "%"),
    **{text: Unit(_NANOSECONDS[text], "ns") for text in ("s", "ms", "us", "ns")},
    **{
        f"{prefix}B{rate}": Unit(1024.0**power, f"byte{rate}")
        for prefix, power in _EXPONENT.items()
        for rate in ("", "/s")
    },
}

_THOUSANDS_SEPARATOR = r"[,\s\u00a0\u202f]"  # comma, space, no-break spaces
_LEVEL = r"^[A-Za-z]+ \((\d+)\)$"  # High (7)
_WITH_INSTANCES = r"^([-+]?[\d.,]+(?:[eE][-+]?\d+)?) \("  # 1,234 (0: 617; 1: 617)
_DECIMAL_COMMA = r"^[-+]?\d{1,3}(?:\.\d{3})*,(?:\d{1,2}|\d{4,})$"  # 1.234,56
_INLINE_UNIT = r"^[-+\d.,eE]*\d([A-Za-z%][A-Za-z/%]*)$"  # 83.97%  5.36GB/s
_INLINE_NUMBER = r"^([-+]?[\d.,]*\d(?:[eE][-+]\d+)?)[A-Za-z%][A-Za-z/%]*$"


@cache
def ncu_unit(text: str) -> Unit:
    """Return the conversion of a unit printed by Nsight Compute, whose prefixes are decimal."""
    # All rates become per second and hertz becomes cycle/s, because the unit of a frequency is
    # `hz`, `Ghz` or `cycle/nsecond` depending on the version.
    above, slash, below = text.strip().partition("/")
    factor, name = _ncu_base(above)
    if not slash:
        return Unit(factor, name or None)
    if below in _NANOSECONDS:
        return Unit(factor * 1e9 / _NANOSECONDS[below], f"{name}/s")
    return Unit(factor, f"{name}/{below}")


def _ncu_base(text: str) -> tuple[float, str]:
    if text in _NANOSECONDS:
        return _NANOSECONDS[text], "ns"
    match = _NCU_PREFIXED.fullmatch(text) or _NCU_PREFIXED.fullmatch(text[:1] + text[1:].lower())
    if not match:
        return 1.0, text
    name = {"hz": "cycle/s", "B": "byte"}.get(match[2], match[2])
    return float(1000 ** _EXPONENT[match[1]]), name


def decimal_point_conversions(columns: Sequence[pl.Series]) -> dict[str, pl.Expr]:
    """Return expressions that convert decimal commas to points, by column name.

    Args:
        columns: text columns of one table, optionally with a unit behind the number.
    """
    # ``12,345`` is ambiguous. It has a decimal comma if other numbers of the table have one and
    # none has a decimal point; in a table with both, only unambiguous numbers are converted.
    commas = any(has_decimal_sign(column, ",") for column in columns)
    if not commas:
        return {}
    points = any(has_decimal_sign(column, ".") for column in columns)
    changed = {}
    for column in columns:
        swapped = with_decimal_point(pl.col(column.name))
        unambiguous = pl.col(column.name).str.contains(_decimal_sign(","))
        changed[column.name] = (
            pl.when(unambiguous).then(swapped).otherwise(pl.col(column.name)) if points else swapped
        )
    return changed


def has_decimal_sign(printed: pl.Series, sign: str) -> bool:
    """Return True if a number has `sign` where it cannot be a thousands separator."""
    return bool(printed.str.contains(_decimal_sign(sign)).any())


def _decimal_sign(sign: str) -> str:
    # 0,5 and 1,23 and 1,2345 and 1.234,5: not followed by exactly three digits, or behind the
    # other separator.
    decimal, other = (",", r"\.") if sign == "," else (r"\.", ",")
    return (
        rf"^[-+]?(?:0{decimal}\d+|\d+{decimal}(?:\d{{1,2}}|\d{{4,}})|"
        rf"\d{{1,3}}(?:{other}\d{{3}})+{decimal}\d+)(?:[eE][-+]?\d+)?[A-Za-z%/]*$"
    )


def has_decimal_comma(printed: pl.Series) -> bool:
    """Return True if numbers are printed as 1.234,56, as Nsight Compute does in some locales."""
    return bool(printed.str.contains(_DECIMAL_COMMA).any())


def with_decimal_point(printed: pl.Expr) -> pl.Expr:
    """Convert numbers such as 1.234,56 to 1,234.56."""
    return printed.str.replace_many([".", ","], [",", "."])


def blank_as_null(column: pl.Expr) -> pl.Expr:
    """Strip texts; blank ones become NULL."""
    stripped = column.str.strip_chars()
    return pl.when(stripped != "").then(stripped)


def number(printed: pl.Expr) -> pl.Expr:
    """Parse numbers with or without thousands separators; other texts become NULL."""
    value = printed.str.replace_all(_THOUSANDS_SEPARATOR, "").cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)


def value(printed: pl.Expr) -> pl.Expr:
    """Parse metric values: a number, a level such as High (7), or a number with its instances."""
    # Others become NULL: n/a, nan, <OVERFLOW>, <INVALID>, PolicySpread, blank.
    return pl.coalesce(
        number(printed),
        printed.str.extract(_LEVEL).cast(pl.Float64),
        number(printed.str.extract(_WITH_INSTANCES)),
    )


def text(printed: pl.Expr) -> pl.Expr:
    """Return printed metric values that are not plain numbers; the others become NULL."""
    return pl.when(number(printed).is_null()).then(printed)


def is_level(printed: pl.Expr) -> pl.Expr:
    """Return True for utilization levels such as Idle (0) or Max (10)."""
    return printed.str.contains(_LEVEL)


def inline_number(printed: pl.Expr) -> pl.Expr:
    """Parse the number of values with a unit, such as 83.97% or 5.36GB/s."""
    return number(printed.str.extract(_INLINE_NUMBER))


def inline_unit(printed: pl.Expr) -> pl.Expr:
    """Extract the unit of values such as 83.97% or 5.36GB/s, NULL if there is none."""
    return printed.str.extract(_INLINE_UNIT)


def factor(units: pl.Expr, known: Mapping[str, Unit]) -> pl.Expr:
    """Return the factor to the base unit; 1 for an unknown unit."""
    factors = {text: unit.factor for text, unit in known.items()}
    return units.replace_strict(factors, default=1.0, return_dtype=pl.Float64)


def base_name(units: pl.Expr, known: Mapping[str, Unit]) -> pl.Expr:
    """Return the base unit; an unknown unit is its own base unit."""
    names = {text: unit.name for text, unit in known.items()}
    return units.replace_strict(names, default=units, return_dtype=pl.String)
