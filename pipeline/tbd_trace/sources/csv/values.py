"""Values as profilers print them: units, thousands separators, levels, and what is no number.

The two tools disagree about prefixes, as their own raw data shows: nvprof prints 12,917,760 bytes
as 12.319336 MB (MB = 1024² bytes, GB/s = 1024³ bytes per second), Nsight Compute prints
887,817,536 bytes as 0.887818 Gbyte (Gbyte = 10⁹ bytes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import polars as pl


class Unit(NamedTuple):
    """How to bring a printed number to its base unit.

    Attributes:
        factor: what to multiply the number by.
        name: the base unit, as ``kernel_metric.unit`` names it; None when nothing is printed.
    """

    factor: float
    name: str | None


_NANOSECONDS = {
    "s": 1e9, "second": 1e9, "ms": 1e6, "msecond": 1e6,
    "us": 1e3, "usecond": 1e3, "ns": 1.0, "nsecond": 1.0,
}  # fmt: skip
_EXPONENT = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_NCU_PREFIXED = re.compile(r"([KMGTP]?)(byte|hz|inst|sector|request|warp|thread|cycle|B)")

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
"""The units that nvprof prints; prefixes of bytes are powers of 1024."""

_PLAIN_TEXT = r"[,\s\u00a0\u202f]"  # thousands separators: comma, spaces of several kinds
_LEVEL = r"^[A-Za-z]+ \((\d+)\)$"  # High (7)
_WITH_INSTANCES = r"^([-+]?[\d.,]+(?:[eE][-+]?\d+)?) \("  # 1,234 (0: 617; 1: 617)
_DECIMAL_COMMA = r"^[-+]?\d{1,3}(?:\.\d{3})*,(?:\d{1,2}|\d{4,})$"  # 1.234,56
_INLINE_UNIT = r"^[-+\d.,eE]*\d([A-Za-z%][A-Za-z/%]*)$"  # 83.97%  5.36GB/s
_INLINE_NUMBER = r"^([-+]?[\d.,]*\d(?:[eE][-+]\d+)?)[A-Za-z%][A-Za-z/%]*$"


@cache
def ncu_unit(text: str) -> Unit:
    """Return the base unit of a unit that Nsight Compute prints; its prefixes are decimal.

    Rates are per second whatever they are printed in, and a frequency in hertz is cycle/s, so
    that versions which print ``hz``, ``Ghz`` and ``cycle/nsecond`` agree.
    """
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


def separators_as_in_c(columns: Sequence[pl.Series]) -> dict[str, pl.Expr]:
    """Return how to bring numbers to decimal points, for the columns of a table that need it.

    A number such as ``12,345`` can be both; it has a decimal comma where other numbers of the table
    have one and none a decimal point. Where some have this and some that, each is taken by itself.

    Args:
        columns: texts, perhaps with a unit behind the number.
    """
    commas = any(has_decimal_sign(column, ",") for column in columns)
    if not commas:
        return {}
    points = any(has_decimal_sign(column, ".") for column in columns)
    changed = {}
    for column in columns:
        swapped = with_decimal_point(pl.col(column.name))
        clear = pl.col(column.name).str.contains(_decimal_sign(","))
        changed[column.name] = (
            pl.when(clear).then(swapped).otherwise(pl.col(column.name)) if points else swapped
        )
    return changed


def has_decimal_sign(printed: pl.Series, sign: str) -> bool:
    """Tell whether a number is printed with a decimal sign that cannot separate thousands."""
    return bool(printed.str.contains(_decimal_sign(sign)).any())


def _decimal_sign(sign: str) -> str:
    """Return the pattern of numbers whose decimal sign cannot separate thousands."""
    decimal, other = (",", r"\.") if sign == "," else (r"\.", ",")
    return (
        rf"^[-+]?(?:0{decimal}\d+|\d+{decimal}(?:\d{{1,2}}|\d{{4,}})|"
        rf"\d{{1,3}}(?:{other}\d{{3}})+{decimal}\d+)(?:[eE][-+]?\d+)?[A-Za-z%/]*$"
    )


def has_decimal_comma(printed: pl.Series) -> bool:
    """Tell whether numbers are printed as 1.234,56, as Nsight Compute does in some locales."""
    return bool(printed.str.contains(_DECIMAL_COMMA).any())


def with_decimal_point(printed: pl.Expr) -> pl.Expr:
    """Return numbers printed as 1.234,56 as 1,234.56."""
    return printed.str.replace_many([".", ","], [",", "."])


def blank_as_null(column: pl.Expr) -> pl.Expr:
    """Return texts without surrounding space; blank ones are NULL, not zero and not ''."""
    stripped = column.str.strip_chars()
    return pl.when(stripped != "").then(stripped)


def number(printed: pl.Expr) -> pl.Expr:
    """Return plain printed numbers, with or without thousands separators; NULL for the rest."""
    value = printed.str.replace_all(_PLAIN_TEXT, "").cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)


def value(printed: pl.Expr) -> pl.Expr:
    """Return the number in a printed metric value: plain, a level such as High (7), or instances.

    What is no finite number (n/a, nan, <OVERFLOW>, <INVALID>, PolicySpread, blank) is NULL.
    """
    return pl.coalesce(
        number(printed),
        printed.str.extract(_LEVEL).cast(pl.Float64),
        number(printed.str.extract(_WITH_INSTANCES)),
    )


def text(printed: pl.Expr) -> pl.Expr:
    """Return a printed metric value where it is not a plain number, else NULL."""
    return pl.when(number(printed).is_null()).then(printed)


def is_level(printed: pl.Expr) -> pl.Expr:
    """Tell whether a printed value is a utilization level such as Idle (0) or Max (10)."""
    return printed.str.contains(_LEVEL)


def inline_number(printed: pl.Expr) -> pl.Expr:
    """Return the number of a value printed with its unit, such as 83.97% or 5.36GB/s."""
    return number(printed.str.extract(_INLINE_NUMBER))


def inline_unit(printed: pl.Expr) -> pl.Expr:
    """Return the unit of a value printed with its unit, NULL where there is none."""
    return printed.str.extract(_INLINE_UNIT)


def factor(units: pl.Expr, known: Mapping[str, Unit]) -> pl.Expr:
    """Return the factor to the base unit, row by row; 1 for a unit that is not known."""
    factors = {text: unit.factor for text, unit in known.items()}
    return units.replace_strict(factors, default=1.0, return_dtype=pl.Float64)


def base_name(units: pl.Expr, known: Mapping[str, Unit]) -> pl.Expr:
    """Return the base unit, row by row; a unit that is not known is its own base unit."""
    names = {text: unit.name for text, unit in known.items()}
    return units.replace_strict(names, default=units, return_dtype=pl.String)
