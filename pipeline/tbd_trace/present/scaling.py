"""Scale the columns of a table to fitting units, which their headers name."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tbd_trace.present.values import is_identifier, scale
from tbd_trace.query.columns import UNIT_OF_ENDING

# The fitting unit replaces the ending of the name.
_ENDINGS = {unit: ending for ending, unit in UNIT_OF_ENDING.items()}
_LEAST = 1e-3  # the median of a column is at least this in its unit


def in_fitting_units(
    frame: pl.DataFrame, units: Mapping[str, str | None]
) -> tuple[pl.DataFrame, dict[str, str | None]]:
    """Divide times, sizes and rates of a frame: ``total_ns`` becomes ``total_ms``.

    Args:
        frame: rows of a query.
        units: unit by column.

    Returns:
        The frame, and the units of its columns that their names lack.
    """
    columns, known = [], dict(units)
    for values in frame:
        unit = units.get(values.name)
        divisor, multiple = fitting(values, unit)
        if divisor == 1:
            columns.append(values)
            continue
        name = _renamed(values.name, unit or "", multiple)
        if name in frame.columns:
            columns.append(values)
            continue
        columns.append((values.cast(pl.Float64) / divisor).alias(name))
        known[name] = None  # in the name
    return pl.DataFrame(columns), known


def _renamed(name: str, unit: str, multiple: str) -> str:
    ending = _ENDINGS.get(unit, "")
    if ending and name.startswith(f"{ending[1:]}_per_"):  # ns_per_step
        return multiple + name.removeprefix(ending[1:])
    base = name.removesuffix(ending)
    return multiple if base.upper() == unit else f"{base}_{multiple}"


def fitting(values: pl.Series, unit: str | None) -> tuple[float, str]:
    """Return the divisor of a column, and the multiple of its unit that results.

    Numbers of identifiers, and columns without a unit or values, give 1 and the unit.
    """
    is_number = values.dtype.is_numeric() or isinstance(values.dtype, pl.Decimal)
    if unit is None or not is_number or is_identifier(values.name):
        return 1, unit or ""
    sizes = values.drop_nulls().cast(pl.Float64).abs()
    sizes = sizes.filter(sizes.is_finite() & (sizes > 0))
    if sizes.is_empty():
        return 1, unit
    largest, median = float(str(sizes.max())), float(str(sizes.median()))
    divisor, multiple = scale(largest, unit)
    # Few large values among many small ones: the unit of the others.
    return (divisor, multiple) if median >= _LEAST * divisor else scale(median, unit)
