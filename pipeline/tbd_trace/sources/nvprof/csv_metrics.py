"""Convert metrics and events that nvprof prints with ``--csv`` to canonical rows."""

from __future__ import annotations

import polars as pl

from tbd_trace.sources.csv import values
from tbd_trace.sources.csv.frames import cell, integer, with_kernel_names
from tbd_trace.sources.csv.values import NVPROF_UNITS, blank_as_null, number
from tbd_trace.sources.nvprof.csv_canonical_rows import LAUNCH_COLUMNS, device_id
from tbd_trace.sources.nvprof.csv_tables import METRIC_SUMMARY, METRIC_TRACE, Part

_INSTANCE = r"^(.+) \((\d+)\)$"  # sm_efficiency (3): the value of unit 3
_INSTANCES = r"^(.+) \(\d+ instances\)$"  # sm_efficiency (16 instances): a list of values
_NO_METRICS = {
    *LAUNCH_COLUMNS.values(), "Start", "Duration", "Static SMem", "Dynamic SMem",
    "Device", "Context", "Stream", "Kernel", "Correlation_ID",
}  # fmt: skip


def metrics(part: Part) -> pl.DataFrame:
    """Return the metrics and events of a table."""
    if part.kind == METRIC_TRACE:
        return _by_kernel(part)
    return _by_kernel_name(part) if part.kind == METRIC_SUMMARY else pl.DataFrame()


def _by_kernel(part: Part) -> pl.DataFrame:
    # The table has one column per metric; the result has one row per kernel and metric.
    metric_columns = [name for name in part.frame.columns if name not in _NO_METRICS]
    ids = pl.int_range(pl.len(), dtype=pl.Int64) + part.first_kernel
    rows = with_kernel_names(part.frame, "Kernel").with_columns(
        kernel_id=ids, device_id=device_id(part)
    )
    melted = rows.unpivot(
        metric_columns,
        index=["kernel_id", "name", "device_id"],
        variable_name="column",
        value_name="printed",
    ).with_columns(
        printed=blank_as_null(pl.col("printed")),
        unit=pl.col("column").replace_strict(
            {name: part.units.get(name, "") for name in metric_columns}, return_dtype=pl.String
        ),
    )
    return melted.select(
        "kernel_id", "device_id",
        kernel_name="name",
        tool=pl.lit("nvprof"),
        metric=pl.coalesce(pl.col("column").str.extract(_INSTANCE, 1), "column"),
        unit_instance=pl.col("column").str.extract(_INSTANCE, 2).cast(pl.Int64, strict=False),
        unit=_unit_name(pl.col("printed"), pl.col("unit"), pl.col("column")),
        value=values.value(pl.col("printed")) * values.factor(pl.col("unit"), NVPROF_UNITS),
        text=values.text(pl.col("printed")),
        instances=pl.lit(1),
    )  # fmt: skip


def _by_kernel_name(part: Part) -> pl.DataFrame:
    title = "Metric Name" if "Metric Name" in part.frame.columns else "Event Name"
    per_unit = pl.col(title).str.contains(_INSTANCES)
    rows = (
        with_kernel_names(part.frame, "Kernel")
        .with_columns(
            metric=pl.coalesce(pl.col(title).str.extract(_INSTANCES), title),
            printed=pl.when(per_unit)
            .then(pl.col("Avg").str.split(","))
            .otherwise(pl.concat_list("Avg")),
        )
        .with_columns(
            unit_instance=pl.when(per_unit).then(pl.int_ranges(pl.col("printed").list.len()))
            .otherwise(pl.concat_list(pl.lit(None, pl.Int64))),
            device_id=device_id(part),
            instances=integer(part.frame, "Invocations"),
        )
        .explode("printed", "unit_instance")
        .with_columns(printed=blank_as_null(pl.col("printed")))
        .with_columns(unit=values.inline_unit(pl.col("printed")).fill_null(""))
    )  # fmt: skip
    return rows.select(
        "device_id", "metric", "unit_instance", "instances",
        kernel_name="name",
        tool=pl.lit("nvprof"),
        unit=_unit_name(pl.col("printed"), pl.col("unit"), pl.col("metric")),
        value=_inline(pl.col("printed")),
        text=pl.when(values.inline_unit(pl.col("printed")).is_null())
        .then(values.text(pl.col("printed"))),
        min_value=_inline(cell(part.frame, "Min")),
        max_value=_inline(cell(part.frame, "Max")),
    )  # fmt: skip


def _inline(printed: pl.Expr) -> pl.Expr:
    unit = values.inline_unit(printed).fill_null("")
    value = pl.coalesce(values.inline_number(printed), values.value(printed))
    return value * values.factor(unit, NVPROF_UNITS)


def _unit_name(printed: pl.Expr, unit: pl.Expr, metric: pl.Expr) -> pl.Expr:
    # Without a printed unit the format decides: nvprof prints utilization levels as High (7),
    # 64-bit counters as whole numbers and ratios with decimals; byte counters end in _bytes.
    return (
        pl.when(values.is_level(printed)).then(pl.lit("level"))
        .when(unit != "").then(values.base_name(unit, NVPROF_UNITS))
        .when(number(printed).is_null()).then(pl.lit(None, pl.String))
        .when(metric.str.ends_with("_bytes")).then(pl.lit("byte"))
        .when(printed.str.contains(".", literal=True)).then(pl.lit("ratio"))
        .otherwise(pl.lit("count"))
    )  # fmt: skip
