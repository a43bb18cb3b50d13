"""Convert Nsight Compute's tables to rows of canonical tables."""

from __future__ import annotations

import polars as pl

from tbd_trace.sources.csv import values
from tbd_trace.sources.csv.frames import cell, integer, with_kernel_names
from tbd_trace.sources.csv.values import Unit, blank_as_null, ncu_unit
from tbd_trace.sources.ncu.names import metric_name
from tbd_trace.sources.ncu.tables import DETAILS, RAW, SUMMARY, Part, metric_columns

ATTRIBUTE = "device__attribute_"
_SIZES = r"^\((\d+), *(\d+), *(\d+)\)$"  # (128, 1, 1)
_DURATIONS = [f"gpu__time_duration.{how}" for how in ("sum", "max", "avg")]
_DIMENSIONS = [f"launch__{of}_dim_{axis}" for of in ("grid", "block") for axis in "xyz"]
_LAUNCH = {
    "registers_per_thread": "launch__registers_per_thread",
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes": "launch__shared_mem_per_block_dynamic",
    "shared_executed_bytes": "launch__shared_mem_config_size",
}
_LAUNCH_METRICS = [
    *_DURATIONS, *_DIMENSIONS, *_LAUNCH.values(), "launch__grid_size", "launch__block_size",
    "launch__device_id", f"{ATTRIBUTE}device_index",
]  # fmt: skip


def kernels(part: Part) -> pl.DataFrame:
    """Return one row per kernel.

    ``total_sizes_only`` is True if only the number of blocks and of threads per block is known;
    ``grid_x`` and ``block_x`` then contain them.
    """
    if part.kind == SUMMARY:
        return pl.DataFrame()
    rows = _launches_of_details(part) if part.kind == DETAILS else _launches_of_raw(part)
    shapes = [_shape(of, axis) for of in ("grid", "block") for axis in range(3)]
    launch = [pl.col(metric).round().alias(name) for name, metric in _LAUNCH.items()]
    duration = pl.coalesce(_DURATIONS).round().alias("duration_ns")
    return with_kernel_names(rows, "Kernel Name").select(
        "kernel_id", "name", "short_name", "mangled_name", "process_id", "context_id", "stream_id",
        duration, *shapes, *launch,
        device_id=pl.coalesce("Device", "launch__device_id", f"{ATTRIBUTE}device_index"),
        total_sizes_only=pl.col("Grid Size").is_null() & pl.col("launch__grid_dim_x").is_null()
        & pl.col("launch__grid_size").is_not_null(),
    )  # fmt: skip


def _identity(part: Part) -> list[pl.Expr]:
    return [
        integer(part.frame, "Process ID").alias("process_id"),
        integer(part.frame, "Context").alias("context_id"),
        integer(part.frame, "Stream").alias("stream_id"),
        integer(part.frame, "Device").alias("Device"),
        cell(part.frame, "Grid Size").alias("Grid Size"),
        cell(part.frame, "Block Size").alias("Block Size"),
    ]


def _launches_of_raw(part: Part) -> pl.DataFrame:
    return part.frame.select(
        "kernel_id",
        "Kernel Name",
        *_identity(part),
        *(raw_metric(part, name) for name in _LAUNCH_METRICS),
    )


def raw_metric(part: Part, metric: str) -> pl.Expr:
    """Return a metric of a raw page in its base unit, NULL if absent."""
    unit = ncu_unit(part.units.get(metric, ""))
    return (values.value(cell(part.frame, metric)) * unit.factor).alias(metric)


def _launches_of_details(part: Part) -> pl.DataFrame:
    # Rows of rules always have context and stream 1: take the values from rows of metrics.
    is_metric = pl.col("metric").is_not_null()
    metrics = _long_metrics(part)
    rows = part.frame.select("kernel_id", "Kernel Name", *_identity(part)).with_columns(metrics)
    kernel_columns = [
        pl.coalesce(pl.col(name).filter(is_metric).first(), pl.col(name).first()).alias(name)
        for name in rows.columns
        if name not in ("kernel_id", *metrics.columns)
    ]
    launch_columns = [
        pl.col("value").filter(pl.col("metric") == name).first().alias(name)
        for name in _LAUNCH_METRICS
    ]
    return rows.group_by("kernel_id", maintain_order=True).agg(*kernel_columns, *launch_columns)


def _long_metrics(part: Part) -> pl.DataFrame:
    texts = part.frame["Metric Unit"].unique() if "Metric Unit" in part.frame.columns else [""]
    known: dict[str, Unit] = {text: ncu_unit(text) for text in texts}
    unit = cell(part.frame, "Metric Unit").fill_null("")
    printed = cell(part.frame, "Metric Value" if part.kind == DETAILS else "Average")
    scale = values.factor(unit, known)
    base = values.base_name(unit, known)
    return part.frame.select(
        metric=metric_name(cell(part.frame, "Metric Name"), base),
        unit=base,
        value=values.value(printed) * scale,
        text=values.text(printed),
        min_value=values.value(cell(part.frame, "Minimum")) * scale,
        max_value=values.value(cell(part.frame, "Maximum")) * scale,
    )


def _shape(of: str, axis: int) -> pl.Expr:
    printed = (
        pl.col(f"{of.title()} Size").str.extract(_SIZES, axis + 1).cast(pl.Int64, strict=False)
    )
    dimension = pl.col(f"launch__{of}_dim_{'xyz'[axis]}")
    total = pl.col(f"launch__{of}_size")
    # Total on the x axis and 1 on the others keep products over the three axes correct.
    flat = total if axis == 0 else pl.when(total.is_not_null()).then(pl.lit(1))
    return pl.coalesce(printed, dimension, flat).alias(f"{of}_{'xyz'[axis]}")


def metrics(part: Part) -> pl.DataFrame:
    """Return one row per kernel (in a summary: kernel name) and metric.

    Device attributes are left out; table ``device`` contains them.
    """
    if part.kind == RAW:
        return _raw_metrics(part)
    identity = {
        "kernel_id": pl.col("kernel_id") if part.kind == DETAILS else pl.lit(None, pl.Int64),
        "device_id": device_id(part),
        "instances": integer(part.frame, "Invocations") if part.kind == SUMMARY else pl.lit(1),
        "tool": pl.lit("ncu"),
    }
    rows = (
        with_kernel_names(part.frame, "Kernel Name")
        .select(kernel_name="name", **identity)
        .with_columns(_long_metrics(part))
        .filter(~pl.col("metric").str.starts_with(ATTRIBUTE))
    )
    # Several sections of the details page can repeat a metric.
    return rows.unique(maintain_order=True) if part.kind == DETAILS else rows


def _raw_metrics(part: Part) -> pl.DataFrame:
    columns = [name for name in metric_columns(part.frame.columns) if name != "kernel_id"]
    columns = [name for name in columns if not name.startswith(ATTRIBUTE)]
    units = {name: ncu_unit(part.units.get(name, "")) for name in columns}
    rows = with_kernel_names(part.frame, "Kernel Name").with_columns(
        device_id=device_id(part), kernel_name="name"
    )
    printed = blank_as_null(pl.col("printed"))
    return rows.unpivot(
        columns,
        index=["kernel_id", "device_id", "kernel_name"],
        variable_name="metric",
        value_name="printed",
    ).select(
        "kernel_id", "device_id", "kernel_name", "metric",
        unit=values.base_name(pl.col("metric"), units),
        value=values.value(printed) * values.factor(pl.col("metric"), units),
        text=values.text(printed),
        tool=pl.lit("ncu"),
        instances=pl.lit(1),
    )  # fmt: skip


def device_id(part: Part) -> pl.Expr:
    """Return the device of a row, from its column or from a metric of a raw page."""
    return pl.coalesce(
        integer(part.frame, "Device"),
        integer(part.frame, "Device Id"),
        integer(part.frame, "launch__device_id"),
        integer(part.frame, f"{ATTRIBUTE}device_index"),
    )


def is_per_range(part: Part) -> bool:
    """Return True for a summary per NVTX range (``--print-summary per-nvtx``)."""
    return any("Range:" in name for name in part.frame.columns)


def kernel_aggregates(part: Part) -> pl.DataFrame:
    """Return the total duration by kernel name, from a summary."""
    # A summary per NVTX range repeats a kernel for each range around it, so it has no totals.
    if part.kind != SUMMARY or is_per_range(part):
        return pl.DataFrame()
    rows = metrics(part)
    present = set(rows["metric"].unique())
    duration = next((name for name in _DURATIONS if name in present), None)
    instances = pl.col("instances")
    return rows.filter(pl.col("metric") == duration).select(
        "device_id", "instances",
        name="kernel_name",
        total_ns=(pl.col("value") * instances).round(),
        min_ns=pl.col("min_value").round(),
        max_ns=pl.col("max_value").round(),
    )  # fmt: skip
