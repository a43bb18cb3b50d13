"""How full kernels keep the SMs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from sample_facts import Operation, Row, counters, row, timeline

# An SM of compute capability 8.0 (CUDA programming guide, tables of technical specifications).
SMS, WARP = 108, 32
MAX_WARPS, MAX_BLOCKS = 64, 32
PARTITIONS, PARTITION_REGISTERS, REGISTER_UNIT = 4, 16_384, 256
SHARED_BYTES, SHARED_UNIT, SHARED_RESERVED = 164 * 1024, 128, 1024
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"


def weighted(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the mean of values with weights, given as (value, weight)."""
    return sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)


def residency(threads: int, registers: int, shared: int) -> tuple[int, str]:
    """Put blocks on an SM until one does not fit: how many did, and what ran out first."""
    warps = -(-threads // WARP)
    per_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    warps_by_registers = PARTITIONS * (PARTITION_REGISTERS // per_warp)
    per_block = -(-(shared + SHARED_RESERVED) // SHARED_UNIT) * SHARED_UNIT
    blocks = 0
    while True:
        if (blocks + 1) * warps > MAX_WARPS:
            return blocks, "warps"
        if (blocks + 1) * warps > warps_by_registers:
            return blocks, "registers"
        if (blocks + 1) * per_block > SHARED_BYTES:
            return blocks, "shared memory"
        if blocks + 1 > MAX_BLOCKS:
            return blocks, "blocks"
        blocks += 1


@dataclass(frozen=True)
class Occupancy:
    """What one launch makes of an SM."""

    theoretical: float  # %
    estimated: float  # %
    waves: float
    limiter: str
    configuration: tuple[int, int, int, int]  # blocks, threads, registers, shared bytes


def occupancy_of(kernel: Operation) -> Occupancy:
    grid, block = (prod(int(n) for n in text.split()) for text in kernel.shape)
    registers = kernel.details["registersPerThread"]
    shared = kernel.details["staticSharedMemory"] + kernel.details["dynamicSharedMemory"]
    blocks, limiter = residency(block, registers, shared)
    return Occupancy(
        theoretical=100 * blocks * -(-block // WARP) / MAX_WARPS,
        estimated=100 * min(blocks, grid / SMS) * block / (MAX_WARPS * WARP),
        waves=grid / (blocks * SMS),
        limiter="grid" if grid < blocks * SMS else limiter,
        configuration=(grid, block, registers, shared),
    )


def occupancy(by: str = "kernel") -> list[Row]:
    groups: dict[str | None, list[Operation]] = defaultdict(list)
    for kernel in timeline().kernels:
        groups[kernel.name if by == "kernel" else None].append(kernel)
    rows = [_occupancy_row(name, kernels) for name, kernels in groups.items()]
    return sorted(rows, key=lambda r: (-r["total_ns"], r["kernel_name"]))


def _occupancy_row(name: str | None, kernels: list[Operation]) -> Row:
    launches = [(occupancy_of(k), k.duration) for k in kernels]
    limits: dict[Any, int] = defaultdict(int)
    configurations: dict[Any, int] = defaultdict(int)
    for launch, ns in launches:
        limits[launch.limiter] += ns
        configurations[launch.configuration] += ns
    counted = [
        (value, k.duration) for k in kernels if (value := counters().value(k, ACHIEVED)) is not None
    ]
    longest = min(configurations, key=lambda c: (-configurations[c], c))
    names = ("grid_blocks", "block_threads", "registers_per_thread", "shared_bytes")
    return row(
        kernel_name=name,
        theoretical_pct=weighted([(o.theoretical, ns) for o, ns in launches]),
        estimated_achieved_pct=weighted([(o.estimated, ns) for o, ns in launches]),
        achieved_pct=weighted(counted) if counted else None,
        limiter=min(limits, key=lambda what: (-limits[what], what)),
        waves=weighted([(o.waves, ns) for o, ns in launches]),
        instances=len(kernels),
        counted_instances=len(counted),
        configurations=len(configurations),
        **dict(zip(names, longest, strict=True)),
        total_ns=sum(k.duration for k in kernels),
        evidence="counter" if counted else "modelled",
    )
