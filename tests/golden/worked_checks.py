"""What each rule has to say about the samples, worked out from the other worked answers.

Tests of a single rule work out its verdict themselves, in a function ``on_sample`` that returns the
arguments of `_row`.

    PYTHONPATH=tests/helpers:tools python tests/golden/worked_checks.py

writes checks/sample.csv and checks/memory.csv anew.
"""

from __future__ import annotations

import csv
import runpy
from collections import defaultdict
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

from sample_facts import Operation, Row, counters, timeline
from worked_memory_checks import memory_checks
from worked_network import comm_overhead
from worked_occupancy import ACHIEVED, SMS, occupancy_of, weighted
from worked_time import compute_util, iteration_summary, throughput
from worked_utilization import low_util_kernels, utilization
from worked_window import kernels_in, steady

FOLDER = Path(__file__).resolve().parent / "checks"
TESTS = FOLDER.parents[1] / "unit" / "queries" / "checks"
SAMPLE, MEMORY = "sample.csv", "memory.csv"
COLUMNS = ("rule", "verdict", "severity", "value", "threshold", "unit", "evidence")
TENSOR_PIPE = "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active"
MATTERS_PCT = 2
# A lone capture is no sweep; its layers are convolutional; nothing sampled its CPUs; one GPU does
# not communicate.
NOT_EVALUABLE = {
    **{"COM01": (20, "%"), "NET02": (60, "%"), "NET03": (70, "%")},
    **{"OBS01": (0.9, None), "OBS02": (0.5, None), "OBS03": (0, "model"), "OBS05": (80, "%")},
    **{"OBS07": (2, None), "OBS09": (15, "%"), "OBS10": (0.8, None), "OBS12": (0.1, None)},
    # Its memory events are the driver's, and no rule can read more than that from them.
    **{"OBS11": (50, "%"), "MEM01": (15, "%"), "MEM03": (5, "%"), "MEM04": (2, "times the batch")},
    **{"MEM02": (None, None), "MEM05": (None, None)},
}


def checks() -> list[Row]:
    rows = [
        _row(rule, "not evaluable", None, threshold, unit, None)
        for rule, (threshold, unit) in NOT_EVALUABLE.items()
    ]
    rows += [_idle(), _peak(), _long_kernels(), _low_occupancy(), _tail()]
    spread = iteration_summary()[0]["cv_pct"]
    slowdown = throughput()[0]["profiler_slowdown_pct"]
    (overhead, *_) = comm_overhead()  # of two workers, the highest ratio first
    rows.append(_row("NET04", "finding", overhead["ratio"], 1, None, "modelled", "note"))
    rows.append(_row("ROB01", "pass", spread, 5, "%", "timeline"))
    rows.append(_row("ROB02", "pass", _launched_outside(), 1, "%", "timeline"))
    rows.append(_row("ROB03", "pass", slowdown, 5, "%", "timeline"))
    rows.append(_row("ROB04", "pass", 0.0, 0, "warning", "profiler"))
    rows += [_row(*found) for found in _worked_in_tests()]
    return sorted(rows, key=lambda row: row["rule"])


def _worked_in_tests() -> Iterator[tuple[Any, ...]]:
    """Yield the results of the functions ``on_sample`` in the tests of single rules."""
    for path in sorted(TESTS.glob("test_*.py")):
        if "def on_sample" in path.read_text(encoding="utf-8"):
            yield runpy.run_path(str(path))["on_sample"]()


def _row(  # noqa: PLR0917 - in the order of the columns
    rule: str,
    verdict: str,
    value: float | None,
    threshold: float | None,
    unit: str | None,
    evidence: str | None,
    severity: str | None = None,
) -> Row:
    compared = None if threshold is None else float(threshold)
    values = (rule, verdict, severity, value, compared, unit, evidence)
    return dict(zip(COLUMNS, values, strict=True))


def _idle() -> Row:
    (busy,) = compute_util({None: steady()})
    assert 50 <= busy["kernel_busy_pct"] < 80
    return _row("OBS04", "finding", busy["kernel_busy_pct"], 80, "%", "timeline", "warning")


def _peak() -> Row:
    fp32, fp16, tensor = (utilization(name)[0] for name in ("fp32", "fp16", "tensor"))
    assert {row["evidence"] for row in (fp32, fp16, tensor)} == {"counter"}
    assert tensor["pipe_pct"] < 5  # else FP32 counters would not see most of the work
    used = fp32["busy_pct"] + fp16["busy_pct"]  # each of its own peak: shares of the time
    assert used >= 30
    return _row("OBS06", "pass", used, 30, "%", "counter")


def _long_kernels() -> Row:
    below = [row for row in low_util_kernels(count=99) if row["side"] == "below"]
    assert below[0]["share_pct"] >= MATTERS_PCT
    return _row("OBS08", "finding", below[0]["share_pct"], MATTERS_PCT, "%", "counter", "note")


def by_name() -> dict[str, list[Operation]]:
    """Return the kernels of the window by name, those that take 2 % of the time and more."""
    kernels = kernels_in(steady())
    total = sum(kernel.duration for kernel in kernels)
    names: dict[str, list[Operation]] = defaultdict(list)
    for kernel in kernels:
        names[kernel.name].append(kernel)
    return {
        name: same
        for name, same in names.items()
        if 100 * sum(kernel.duration for kernel in same) / total >= MATTERS_PCT
    }


def _low_occupancy() -> Row:
    lowest = []
    for same in by_name().values():
        tensor = [(counters().value(k, TENSOR_PIPE) or 0, k.duration) for k in same]
        achieved = [
            (value, occupancy_of(k).theoretical, k.duration)
            for k in same
            if (value := counters().value(k, ACHIEVED)) is not None
        ]
        theoretical = weighted([(occupancy_of(k).theoretical, k.duration) for k in same])
        ratio = sum(a * ns for a, _, ns in achieved) / sum(t * ns for _, t, ns in achieved)
        if weighted(tensor) < 60 and ratio >= 0.6 and theoretical <= 50:
            lowest.append(theoretical)
    return _row("OCC01", "finding", min(lowest), 50, "%", "counter", "note")


def _tail() -> Row:
    total = sum(kernel.duration for kernel in kernels_in(steady()))
    found: list[tuple[float, float]] = []
    for same in by_name().values():
        tails = [
            (100 * waves / ceil(waves), k.duration)
            for k in same
            if (waves := occupancy_of(k).waves) < 4
            and waves / ceil(waves) < 0.8
            and not (waves <= 1 and occupancy_of(k).configuration[0] % SMS == 0)
        ]
        if 100 * sum(ns for _, ns in tails) / total >= MATTERS_PCT:
            found += tails
    return _row("OCC02", "finding", weighted(found), 80, "%", "modelled", "note")


def _launched_outside() -> float:
    """Return the share of the kernels' time whose launch is in an iteration before the window."""
    window = steady()
    inside = [k for k in _running_kernels() if k.iteration in (window.iterations or ())]
    total = sum(k.duration for k in _running_kernels())
    return 100.0 * (total - sum(k.duration for k in inside)) / total


def _running_kernels() -> list[Operation]:

    window = steady()
    return [k for k in timeline().kernels if k.start < window.end and k.end > window.start]


def write() -> None:
    for name, rows in ((SAMPLE, checks()), (MEMORY, memory_checks())):
        with (FOLDER / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    write()
