"""What kernels and layers achieve under the roof of the GPU's peaks and its memory."""

from __future__ import annotations

from itertools import product

from sample_facts import DEVICE, PID, Operation, Row, counters, row
from worked_utilization import PEAK, UNKNOWN_FLOP, Work, counted, modelled
from worked_window import kernels_in, steady

BANDWIDTH = 1555.2e9  # byte/s, as the file tells; the datasheet rounds to 1,555 GB/s
MEGABYTE = 1e6  # the unit in which Nsight Compute printed the columns
IN_CACHES = "no traffic of device memory: the caches served it all"


def dram_bytes(kernel: Operation) -> float | None:
    assert {counters().units[f"dram__bytes_{way}.sum"] for way in ("read", "write")} == {"Mbyte"}
    moved = [counters().value(kernel, f"dram__bytes_{way}.sum") for way in ("read", "write")]
    return sum(n * MEGABYTE for n in moved if n is not None) if None not in moved else None


def roofline(by: str = "kernel") -> list[Row]:
    kernels = kernels_in(steady())
    names = {kernel.name if by == "kernel" else kernel.layer for kernel in kernels}
    rows = []
    for name in names:
        same = [k for k in kernels if (k.name if by == "kernel" else k.layer) == name]
        evidences = {"counter": counted}
        if by == "layer":
            evidences["modelled"] = modelled
        made = {
            (precision, evidence): [w for w in work(kernels, precision) if w.kernel in same]
            for precision, (evidence, work) in product(PEAK, evidences.items())
        }
        worked = {key: works for key, works in made.items() if any(map(did_work, works))}
        if not worked:  # listed under fp32
            worked = {key: works for key, works in made.items() if key[0] == "fp32" and works}
        named = {
            "kernel_name": name if by == "kernel" else None,
            "layer": name if by == "layer" else None,
        }
        rows += [_row(named, key, works, same) for key, works in worked.items()]
    return sorted(
        rows,
        key=lambda r: (
            *(-(r["total_ns"] or 0), r["kernel_name"] or ""),
            *(r["layer"] is None, r["layer"] or "", r["precision"], r["evidence"]),
        ),
    )


def did_work(work: Work) -> bool:
    return work.flop > 0 if work.flop is not None else bool(work.active or work.elapsed)


def _row(named: Row, key: tuple[str, str], works: list[Work], same: list[Operation]) -> Row:
    precision, evidence = key
    known = [w for w in works if w.flop is not None and dram_bytes(w.kernel) is not None]
    total = sum(k.duration for k in same)
    found = row(
        pid=PID,
        device_id=DEVICE,
        **named,
        precision=precision,
        kernels=len(known),
    )
    flop = sum(w.flop or 0 for w in known)
    moved = sum(dram_bytes(w.kernel) or 0 for w in known)
    seconds = sum(w.kernel.duration for w in known) / 1e9
    roof = min(PEAK[precision], flop / moved * BANDWIDTH) if moved else None
    point = known and roof is not None
    return found | {
        "flop": flop if known else None,
        "dram_bytes": moved if known else None,
        "total_ns": sum(w.kernel.duration for w in known) if known else None,
        "arithmetic_intensity": flop / moved if point else None,
        "achieved_flops": flop / seconds if point else None,
        "peak_flops": PEAK[precision],
        "memory_bandwidth_bytes_per_s": BANDWIDTH,
        "bandwidth_pct": 100 * moved / seconds / BANDWIDTH if point else None,
        "attainable_flops": roof if point else None,
        "attained_pct": 100 * flop / seconds / roof if point and roof else None,
        "bound": ("compute" if roof == PEAK[precision] else "memory") if point else None,
        "covered_pct": 100 * sum(w.kernel.duration for w in known) / total,
        "evidence": evidence,
        "bytes_evidence": "counter" if known else None,
        "reason": None if point else (IN_CACHES if known else UNKNOWN_FLOP),
    }
