"""The typical step of the sample, drawn in 500 parts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from math import ceil, floor
from statistics import median

from sample_facts import DEVICE, PID, Call, Row, row, timeline
from worked_causes import cause_of, cause_spans, input_wait, launching_calls
from worked_window import bounds, steady

PARTS = 500
TITLES = {
    "copies": "copies",
    "gpu_elementwise": "GPU elementwise",
    "gpu_matmul": "GPU matrix work of unknown precision",
    "gpu_matmul_no_tensor_core": "GPU matrix work without tensor cores",
    "gpu_matmul_tensor_core": "GPU matrix work on tensor cores",
    "gpu_normalization": "GPU normalization",
    "gpu_optimizer": "GPU optimizer",
    "gpu_pooling": "GPU pooling",
    "gpu_reduction": "GPU reductions and losses",
    "host": "host",
    "input_pipeline": "input pipeline",
    "launch_latency": "launch latency",
    "memory_allocation": "memory allocation",
    "synchronization": "synchronization",
    "warm_up": "warm-up",
}
CALLS = {
    "Synchronize": "synchronization",
    "Malloc": "memory allocation",
    "Free": "memory allocation",
    "Launch": "launch",
    "Mem": "copy call",
}
"""Kind of the calls whose names contain a text; the first one counts."""
Span = tuple[int, int, str]  # begin and end, ns, and kind


def step_timeline() -> list[Row]:
    number, begin, end = _typical()
    part_ns = (end - begin) / PARTS
    rows = []
    for lane, spans in _lanes(begin, end).items():
        kinds = _kinds(spans, begin, end, is_thread=lane.split()[-1] in map(str, _tids()))
        for kind, parts in _runs(kinds):
            rows.append(
                row(
                    pid=PID,
                    step=number,
                    lane=lane,
                    kind=kind,
                    time_in_step_ns=round(parts.start * part_ns),
                    duration_ns=round(len(parts) * part_ns),
                    step_ns=end - begin,
                )
            )
    return rows


def _runs(kinds: dict[int, str]) -> list[tuple[str, range]]:
    # Neighbouring parts of one kind.
    runs: list[tuple[str, range]] = []
    for part, kind in sorted(kinds.items()):
        if runs and runs[-1][0] == kind and runs[-1][1].stop == part:
            runs[-1] = kind, range(runs[-1][1].start, part + 1)
        else:
            runs.append((kind, range(part, part + 1)))
    return runs


def _typical() -> tuple[int, int, int]:
    # The step of the window whose duration is closest to the median.
    steps = [(number, *bounds()[number]) for number in steady().iterations or ()]
    middle = median(end - begin for _, begin, end in steps)
    return min(steps, key=lambda step: abs(step[2] - step[1] - middle))


def _tids() -> list[int]:
    return sorted({call.tid for call in launching_calls()})


def _lanes(begin: int, end: int) -> dict[str, list[Span]]:
    lanes: dict[str, list[Span]] = {
        "cause of the step": [
            (first, last, TITLES[cause])
            for first, last, causes in cause_spans(begin, end)
            for cause in set(causes)
        ]
    }
    for tid in _tids():
        lanes[f"{timeline().threads[tid]} {tid}"] = list(_host(tid, begin))
    for one in timeline().operations:
        lane = f"GPU {DEVICE} stream {one.details['streamId']}"
        lanes.setdefault(lane, []).append((one.start, one.end, TITLES[cause_of(one)]))
    return lanes


def _host(tid: int, begin: int) -> Iterator[Span]:
    for call in launching_calls():
        if call.tid == tid and call.end > begin:
            yield call.start, call.end, _call_kind(call)
            for wait in input_wait(call):
                yield *wait, "input pipeline"


def _call_kind(call: Call) -> str:
    return next((CALLS[text] for text in CALLS if text in call.name), "other call")


def _kinds(spans: list[Span], begin: int, end: int, *, is_thread: bool) -> dict[int, str]:
    # The kind with the most time in each part, if the lane is busy for half of it or a thread.
    part_ns = (end - begin) / PARTS
    spent: dict[int, Counter[str]] = defaultdict(Counter)
    for first, last, kind in spans:
        parts = floor((first - begin) / part_ns), ceil((last - begin) / part_ns)
        for part in range(max(0, parts[0]), min(PARTS, parts[1])):
            from_ns = max(first - begin, part * part_ns)
            spent[part][kind] += min(last - begin, (part + 1) * part_ns) - from_ns
    return {
        part: min(kinds, key=lambda kind: (-kinds[kind], kind))
        for part, kinds in spent.items()
        if is_thread or kinds.total() >= part_ns / 2
    }
