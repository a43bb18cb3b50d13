"""Convert the tables that nvprof prints with ``--csv`` to rows of canonical tables."""

from __future__ import annotations

import polars as pl

from tbd_trace.sources.csv.frames import cell, integer, with_kernel_names
from tbd_trace.sources.csv.values import NVPROF_UNITS, Unit, number
from tbd_trace.sources.nvprof.csv_tables import SUMMARY, TRACE, Part, devices

_DEVICE_NUMBER = r"\((\d+)\)(?:, |$)"
_CORRELATION_SUFFIX = r" \[(\d+)\]$"  # of names in versions without column Correlation_ID
_VERSION_SUFFIX = r"_v\d{4,}$"  # of API functions: cudaLaunchKernel_v7000
_LIMIT = 2.0**62  # ns or bytes: 146 years or 4 EiB; larger values are garbage
_SCALED = ("Start", "Duration", "Size", "Time", "Min", "Max")
PRINTED_STEP = 1e-6  # times and sizes are printed with six decimals
LAUNCH_COLUMNS = {
    "grid_x": "Grid X", "grid_y": "Grid Y", "grid_z": "Grid Z",
    "block_x": "Block X", "block_y": "Block Y", "block_z": "Block Z",
    "registers_per_thread": "Registers Per Thread",
}  # fmt: skip


def scaled(part: Part, column: str) -> pl.Expr:
    """Return a column as int64 in ns or bytes; impossible values are NULL."""
    unit = _unit(part, column)
    value = _in_base_unit(part, column)
    if unit.name == "byte" and unit.factor * PRINTED_STEP / 2 > 1:
        # 0.000000 GB is a size below the printed precision, so it is unknown.
        value = pl.when(value > 0).then(value)
    return pl.when(value.abs() < _LIMIT).then(value.round().cast(pl.Int64, strict=False))


def _unit(part: Part, column: str) -> Unit:
    return NVPROF_UNITS.get(part.units.get(column, ""), Unit(1.0, None))


def _in_base_unit(part: Part, column: str) -> pl.Expr:
    return number(cell(part.frame, column)) * _unit(part, column).factor


def count_impossible(part: Part) -> int:
    """Return the number of times and sizes of at least 2^62 ns or bytes."""
    columns = [name for name in _SCALED if name in part.frame.columns]
    counts = [(_in_base_unit(part, name).abs() >= _LIMIT).sum() for name in columns]
    return sum(part.frame.select(count).item() for count in counts)


def device_id(part: Part, column: str = "Device") -> pl.Expr:
    """Return the device number of each row."""
    return cell(part.frame, column).str.extract(_DEVICE_NUMBER).cast(pl.Int64, strict=False)


def _activity(part: Part, activity: str) -> Part:
    frame = part.frame.filter(activity=activity) if part.kind == TRACE else part.frame.clear()
    return Part(part.kind, frame, part.units, part.process_id, part.device, part.first_kernel)


def _times(part: Part) -> dict[str, pl.Expr]:
    start, duration = scaled(part, "Start"), scaled(part, "Duration")
    return {"start_ns": start, "end_ns": start + duration, "duration_ns": duration}


def _identity(part: Part) -> dict[str, pl.Expr]:
    return {
        "process_id": pl.lit(part.process_id, pl.Int64),
        "device_id": device_id(part),
        "context_id": integer(part.frame, "Context"),
        "stream_id": integer(part.frame, "Stream"),
        "correlation_id": integer(part.frame, "Correlation_ID"),
    }


def kernels(part: Part) -> pl.DataFrame:
    """Return the kernels of a trace, with or without metrics."""
    if part.kind == TRACE:
        part = _activity(part, "kernel")
    printed = pl.col("Name" if part.kind == TRACE else "Kernel")
    columns = _times(part) | _identity(part) if "Start" in part.frame.columns else _identity(part)
    columns |= {name: integer(part.frame, column) for name, column in LAUNCH_COLUMNS.items()}
    columns["static_shared_bytes"] = scaled(part, "Static SMem")
    columns["dynamic_shared_bytes"] = scaled(part, "Dynamic SMem")
    columns["printed"] = printed
    if "Correlation_ID" not in part.frame.columns:
        columns["printed"] = printed.str.replace(_CORRELATION_SUFFIX, "")
        columns["correlation_id"] = printed.str.extract(_CORRELATION_SUFFIX).cast(
            pl.Int64, strict=False
        )
    ids = pl.int_range(pl.len(), dtype=pl.Int64) + part.first_kernel
    return with_kernel_names(part.frame.select(kernel_id=ids, **columns), "printed")


def memcpys(part: Part) -> pl.DataFrame:
    """Return the memory copies, including those of unified memory."""
    part = _activity(part, "memcpy")
    name = pl.col("Name")
    direction = name.str.extract(r"[Mm]emcpy (\w+)\]")
    unified = name.str.starts_with("[Unified")
    columns = _times(part) | _identity(part) | {
        "bytes": pl.coalesce(scaled(part, "Size"), scaled(part, "Unified Memory")),
        "direction": pl.when(unified).then("unified " + direction).otherwise(direction),
        "src_kind": cell(part.frame, "SrcMemType").str.to_lowercase(),
        "dst_kind": cell(part.frame, "DstMemType").str.to_lowercase(),
        "src_device_id": device_id(part, "Src Dev"),
        "dst_device_id": device_id(part, "Dst Dev"),
    }  # fmt: skip
    return part.frame.select(**columns)


def memsets(part: Part) -> pl.DataFrame:
    """Return the memory fills."""
    part = _activity(part, "memset")
    columns = _times(part) | _identity(part)
    columns["bytes"] = scaled(part, "Size")
    columns["memory_kind"] = cell(part.frame, "SrcMemType").str.to_lowercase()
    return part.frame.select(**columns)


def api_calls(part: Part) -> pl.DataFrame:
    """Return the API calls, without thread ids because nvprof does not print them."""
    part = _activity(part, "api call")
    start, duration = scaled(part, "Start"), scaled(part, "Duration")
    return part.frame.select(
        start_ns=start,
        end_ns=start + duration,
        process_id=pl.lit(part.process_id, pl.Int64),
        correlation_id=integer(part.frame, "Correlation_ID"),
        api=pl.when(pl.col("Name").str.starts_with("cu"))
        .then(pl.lit("cuda"))
        .otherwise(pl.lit("osrt")),
        name=pl.col("Name").str.replace(_VERSION_SUFFIX, ""),
    ).drop_nulls(["start_ns", "end_ns"])


def kernel_aggregates(part: Part) -> pl.DataFrame:
    """Return the total duration by kernel name, from a summary."""
    if part.kind != SUMMARY:
        return pl.DataFrame()
    # Names in brackets are copies and fills.
    rows = part.frame.filter(~pl.col("Name").str.starts_with("["))
    if "Type" in rows.columns:
        rows = rows.filter(pl.col("Type") == "GPU activities")
    part = Part(part.kind, rows, part.units, part.process_id, part.device, 0)
    device = devices(part.device or "")
    return with_kernel_names(rows, "Name").select(
        "name",
        device_id=pl.lit(device[0][0] if device else None, pl.Int64),
        instances=integer(part.frame, "Calls"),
        total_ns=scaled(part, "Time"),
        min_ns=scaled(part, "Min"),
        max_ns=scaled(part, "Max"),
    )
