"""How much of its peaks and pipes the GPU used: by trace, iteration, layer and kernel."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sample_facts import DEVICE, PID, Operation, Row, capture, counters, layers, row
from worked_occupancy import SMS, weighted
from worked_window import kernels_in, length, parts, steady, union

CLOCK_HZ = 1.41e9
FP32_LANES, FP16_LANES, TENSOR_FLOP_PER_CYCLE = 64, 256, 2048
PEAK = {  # FLOP/s of an A100; the datasheet rounds them to 19.5, 78 and 312 TFLOP/s
    "fp32": SMS * FP32_LANES * 2 * CLOCK_HZ,
    "fp16": SMS * FP16_LANES * 2 * CLOCK_HZ,
    "tensor": SMS * TENSOR_FLOP_PER_CYCLE * CLOCK_HZ,
}
OPCODES = {"fp32": ("fadd", "fmul", "ffma"), "fp16": ("hadd", "hmul", "hfma")}
UNKNOWN_FLOP = "FLOP unknown: only the use of the pipe was measured"
PIPES = {"fp32": "fma", "fp16": "fp16", "tensor": "tensor_op_hmma"}


@dataclass(frozen=True)
class Work:
    """What one kind of evidence knows of one kernel."""

    kernel: Operation
    flop: float | None
    cycles: float = 0
    active: float | None = None  # % of the active cycles
    elapsed: float | None = None  # % of the elapsed cycles


def counted(kernels: list[Operation], precision: str) -> list[Work]:
    found = []
    for kernel in kernels:

        def value(metric: str, kernel: Operation = kernel) -> float | None:
            return counters().value(kernel, metric)

        executed = [
            value(f"smsp__sass_thread_inst_executed_op_{opcode}_pred_on.sum")
            for opcode in OPCODES.get(precision, ())
        ]
        cycles = value("gpc__cycles_elapsed.max")
        if cycles is None:
            continue  # not replayed
        pipe = f"sm__inst_executed_pipe_{PIPES[precision]}.avg.pct_of_peak_sustained"
        add, multiply, fused = (n or 0 for n in executed or (0, 0, 0))
        flop = add + multiply + 2 * fused if executed else None
        found.append(Work(kernel, flop, cycles, value(f"{pipe}_active"), value(f"{pipe}_elapsed")))
    return found


def modelled(kernels: list[Operation], precision: str) -> list[Work]:
    """Share the FLOP of a layer's pass among its kernels by their time."""
    passes: dict[Any, list[Operation]] = defaultdict(list)
    for kernel in kernels:
        if kernel.layer is not None:
            passes[kernel.iteration, kernel.layer, kernel.phase == "backward"].append(kernel)
    found = []
    for (_, name, backward), same in passes.items():
        layer = layers()[name]
        if ("fp32" if layer["precision"] == "fp32" else "tensor") != precision:
            continue
        flop = capture()["batch_size"] * layer["backward_flop" if backward else "forward_flop"]
        total = sum(k.duration for k in same)
        found += [Work(kernel, flop * kernel.duration / total) for kernel in same]
    return found


def utilization(precision: str, by: str = "trace") -> list[Row]:
    window = steady()
    kernels = kernels_in(window)
    evidences = {"counter": counted(kernels, precision), "modelled": modelled(kernels, precision)}
    if by == "kernel":
        del evidences["modelled"]  # the FLOP of a layer say nothing about one of its kernels
    rows = []
    for key in dict.fromkeys(_key(kernel, by) for kernel in kernels):
        same = [kernel for kernel in kernels if _key(kernel, by) == key]
        total = sum(kernel.duration for kernel in same)
        part = parts(window)[same[0].iteration] if by == "iteration" else window
        busy = length(union(part, "kernel")) if by in ("trace", "iteration") else total
        for evidence, work in evidences.items():
            if not (known := [w for w in work if _key(w.kernel, by) == key]):
                continue
            rows.append(
                row(
                    pid=PID,
                    device_id=DEVICE,
                    iteration=key if by == "iteration" else None,
                    layer=key if by == "layer" else None,
                    kernel_name=key if by == "kernel" else None,
                    kernels=len(same),
                    **_of_peak(known, PEAK[precision], busy, part.elapsed),
                    **_of_pipe(known),
                    covered_pct=100 * _time(known) / total,
                    evidence=evidence,
                    measured_over=window.measured_over,
                    reason=UNKNOWN_FLOP if known[0].flop is None else None,
                )
            )
    return sorted(rows, key=lambda r: _order(r, by))


def _key(kernel: Operation, by: str) -> str | int | None:
    keys: dict[str, str | int | None] = {
        "trace": None, "iteration": kernel.iteration, "layer": kernel.layer, "kernel": kernel.name
    }  # fmt: skip
    return keys[by]


def _order(r: Row, by: str) -> tuple[Any, ...]:
    """Layers and kernels come by falling time, work outside the layers last."""
    named = by in ("layer", "kernel") and (r["layer"] or r["kernel_name"])
    time = -r["busy_ns"] if named else 0
    return r["iteration"] or 0, time, r["layer"] or "", r["kernel_name"] or "", r["evidence"]


def _of_peak(work: list[Work], peak: float, busy: int, elapsed: int) -> Row:
    flop = _flop(work)
    return {
        "flop": flop,
        "peak_flops": peak,
        "busy_ns": busy,
        "elapsed_ns": elapsed,
        "busy_pct": None if flop is None else 100 * flop / (peak * busy / 1e9),
        "elapsed_pct": None if flop is None else 100 * flop / (peak * elapsed / 1e9),
    }


def _of_pipe(work: list[Work]) -> Row:
    """Both percentages are weighted by elapsed cycles; levels are nvprof's."""
    active = [(w.active, w.cycles) for w in work if w.active is not None]
    elapsed = [(w.elapsed, w.cycles) for w in work if w.elapsed is not None]
    return {
        "pipe_pct": weighted(active) if active else None,
        "pipe_elapsed_pct": weighted(elapsed) if elapsed else None,
        "pipe_level": None,
    }


def low_util_kernels(precision: str = "fp32", count: int = 5) -> list[Row]:
    """Compare kernels by FLOP where they are counted, else by the pipe's active cycles."""
    kernels = kernels_in(steady())
    work = counted(kernels, precision)
    groups: dict[str, list[Work]] = defaultdict(list)
    for w in work:
        groups[w.kernel.name].append(w)
    measure = "pipe" if work[0].flop is None else "FLOP"
    mean = _use(work, precision)
    rows = []
    for side in ("below", "above"):
        there = {
            n: same
            for n, same in groups.items()
            if (_use(same, precision) < mean) == (side == "below")
        }
        longest = sorted(there, key=lambda name: (-_time(there[name]), name))[:count]
        rows += [
            row(
                side=side,
                rank=rank,
                kernel_name=name,
                utilization=_use(there[name], precision),
                mean_utilization=mean,
                measure=measure,
                share_pct=100 * _time(there[name]) / sum(k.duration for k in kernels),
                total_ns=_time(there[name]),
                instances=len(there[name]),
                evidence="counter",
            )
            for rank, name in enumerate(longest, 1)
        ]
    return rows


def _flop(work: list[Work]) -> float | None:
    known = [w.flop for w in work if w.flop is not None]
    return sum(known) if known else None


def _time(work: list[Work]) -> int:
    return sum(w.kernel.duration for w in work)


def _use(work: list[Work], precision: str) -> float:
    if (flop := _flop(work)) is None:
        return weighted([(w.active, w.cycles) for w in work if w.active is not None])
    return 100 * flop / (PEAK[precision] * _time(work) / 1e9)
