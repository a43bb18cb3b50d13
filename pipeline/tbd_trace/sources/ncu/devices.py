"""Extract devices and processes from Nsight Compute's tables."""

from __future__ import annotations

import polars as pl

from tbd_trace.sources.csv.frames import cell, integer
from tbd_trace.sources.csv.values import number
from tbd_trace.sources.ncu.canonical_rows import ATTRIBUTE, device_id, raw_metric
from tbd_trace.sources.ncu.tables import Part

_DEVICE = {
    "sm_count": "multiprocessor_count",
    "memory_bytes": "total_memory",
    "l2_bytes": "l2_cache_size",
    "max_threads_per_block": "max_threads_per_block",
    "max_warps_per_sm": "max_warps_per_multiprocessor",
    "max_blocks_per_sm": "limits_max_cta_per_sm",
    "max_registers_per_block": "max_registers_per_block",
    "max_registers_per_sm": "max_registers_per_multiprocessor",
    "max_shared_bytes_per_block": "max_shared_memory_per_block",
    "max_shared_bytes_per_block_optin": "max_shared_memory_per_block_optin",
    "max_shared_bytes_per_sm": "max_shared_memory_per_multiprocessor",
}


def devices(part: Part) -> pl.DataFrame:
    """Return the devices in the rows, with the attributes that the file contains."""
    major, minor = (
        cell(part.frame, f"{ATTRIBUTE}compute_capability_{of}") for of in ("major", "minor")
    )
    version = pl.concat_str(
        number(major).cast(pl.Int64, strict=False),
        number(minor).cast(pl.Int64, strict=False),
        separator=".",
    )
    bus_bytes = _attribute(part, "global_memory_bus_width") / 8
    return part.frame.select(
        device_id=device_id(part),
        name=cell(part.frame, f"{ATTRIBUTE}display_name"),
        compute_capability=pl.coalesce(cell(part.frame, "CC"), version),
        clock_hz=_clock(part, "clock_rate"),
        # Two transfers per clock (double data rate), as the CUDA C++ Best Practices Guide computes
        # the theoretical bandwidth.
        memory_bandwidth_bytes_per_s=_clock(part, "memory_clock_rate") * 2 * bus_bytes,
        **{column: _attribute(part, name) for column, name in _DEVICE.items()},
    ).unique(maintain_order=True).drop_nulls("device_id")  # fmt: skip


def _attribute(part: Part, name: str) -> pl.Expr:
    return raw_metric(part, ATTRIBUTE + name)


def _clock(part: Part, name: str) -> pl.Expr:
    # Without a unit the value is in kilohertz, as in cudaDeviceProp.
    printed = part.units.get(ATTRIBUTE + name, "")
    return _attribute(part, name) * (1 if printed else 1000)


def processes(part: Part) -> pl.DataFrame:
    """Return the processes in the rows."""
    return part.frame.select(
        process_id=integer(part.frame, "Process ID"),
        pid=integer(part.frame, "Process ID"),
        name=cell(part.frame, "Process Name"),
    ).unique(maintain_order=True).drop_nulls("process_id")  # fmt: skip
