"""What recording adds to a step, by the iterations that collect timed without the profiler."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from tbd_trace.why.diagnosis import Diagnosis, is_gpu

_LEAST = 1.02  # slow-down that is worth a sentence
_SHOWN = 2  # causes besides the work of the GPU
_LEAST_PCT = 1.0


def profiler_cost(diagnosis: Diagnosis, capture: Mapping[str, Any]) -> str | None:
    """Compare a step with and without the profiler, in words; None if that is unknown or little.

    The work of the GPU is taken to last as long without the profiler; the other causes shrink alike
    to the rest of the step.

    Args:
        diagnosis: of the recorded steps.
        capture: content of ``trace.capture``.
    """
    step_ns, recorded_ns = _unprofiled_ns(capture), diagnosis.median_step_ns
    if step_ns is None or recorded_ns is None or recorded_ns < _LEAST * step_ns:
        return None
    times = f"{step_ns / 1e6:.4g} ms, recorded {recorded_ns / 1e6:.4g} ms"
    cost = f"without it a usual step takes {times} (×{recorded_ns / step_ns:.2f})"
    gpu_ns = diagnosis.gpu_step_ns
    if gpu_ns is None or gpu_ns > step_ns:
        return cost
    shrunk = (step_ns - gpu_ns) / (recorded_ns - gpu_ns)
    others = [
        (cause.title, cause.share_pct * recorded_ns * shrunk / step_ns)
        for cause in diagnosis.causes
        if not is_gpu(cause.cause)
    ]
    parts = [("the GPU works", 100 * gpu_ns / step_ns), *others[:_SHOWN]]
    shares = ", ".join(f"{name} {pct:.0f} %" for name, pct in parts if pct >= _LEAST_PCT)
    expected = _expected_ns(diagnosis, shrunk)
    after = f", and {expected / 1e6:.4g} ms after that change" if expected else ""
    return f"{cost}; there {shares}{after}, if the GPU's work takes as long as recorded"


def _unprofiled_ns(capture: Mapping[str, Any]) -> float | None:
    # The median, as one of five steps may evaluate or save; None if no step was timed.
    timed = capture.get("unprofiled") or capture.get("throughput") or {}
    if timed.get("iteration_ns"):
        return float(median(timed["iteration_ns"]))
    seconds, iterations = timed.get("seconds"), timed.get("iterations")
    return 1e9 * seconds / iterations if seconds and iterations else None


def _expected_ns(diagnosis: Diagnosis, shrunk: float) -> float | None:
    # The likely step after the first change, without the profiler.
    first = diagnosis.try_first
    if first is None or first.likely is None or not diagnosis.then:
        return None
    gpu = sum(cause.share_pct for cause in diagnosis.then if is_gpu(cause.cause)) / 100
    return first.likely * (gpu + (1 - gpu) * shrunk)
