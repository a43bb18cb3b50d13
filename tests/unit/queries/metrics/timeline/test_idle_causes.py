"""idle_causes: every idle nanosecond classified by itself."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeTrace, Row, metric

CAUSES = {
    "cudaLaunchKernel": "launch",
    "cudaMemcpyAsync": "launch",
    "cuLaunchKernelEx": "launch",
    "cudaGraphLaunch": "launch",
    "cudaMemcpy": "synchronization",
    "cudaDeviceSynchronize": "synchronization",
    "cudaEventQuery": "synchronization",
    "cudaMalloc": "memory allocation",
    "cudaFree": "memory allocation",
    "cudaHostAlloc": "memory allocation",
    "cudaEventRecord": "other CUDA call",
    "cudaGetDevice": "other CUDA call",
}
Span = tuple[int, int]


@dataclass
class Thread:
    """What one thread did: calls that follow each other, and data ranges that may do anything."""

    calls: list[tuple[int, int, str]] = field(default_factory=list)
    data: list[Span] = field(default_factory=list)

    def cause(self, at: int) -> str:
        """Return what the thread is doing in the nanosecond that begins at ``at``."""
        for start, end, name in self.calls:
            if start <= at < end:
                return CAUSES[name]
        return "data wait" if any(s <= at < e for s, e in self.data) else "host work"


@dataclass
class Operation:
    """One GPU operation: when, the thread that launched it (None: unknown), when the call ended."""

    start: int
    end: int
    thread: int | None
    launched: int | None


def idle_stretches(operations: list[Operation]) -> list[Span]:
    """Return the gaps of the union of the operations."""
    first, last = min(o.start for o in operations), max(o.end for o in operations)
    busy = {at for o in operations for at in range(o.start, o.end)}
    gaps = []
    for idle, times in groupby(range(first, last), lambda at: at not in busy):
        if idle:
            whole = list(times)
            gaps.append((whole[0], whole[-1] + 1))
    return gaps


def classified(operations: list[Operation], threads: dict[int, Thread]) -> dict[str, Any]:
    """Return (idle time, gaps, longest stretch) by cause."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for start, end in idle_stretches(operations):
        later = [o for o in operations if o.start >= end]
        soonest = min(o.start for o in later)
        nxt = min(
            (o for o in later if o.start == soonest),
            key=lambda o: (o.launched is None, o.launched),
        )

        def cause(at: int, nxt: Operation = nxt) -> str:
            if nxt.thread is None or nxt.launched is None:
                return "unknown"
            return "launch latency" if at >= nxt.launched else threads[nxt.thread].cause(at)

        stretches = [(kind, len(list(ns))) for kind, ns in groupby(range(start, end), cause)]
        for kind, length in stretches:
            found[kind][0] += length
            found[kind][2] = max(found[kind][2], length)
        for kind in {kind for kind, _ in stretches}:
            found[kind][1] += 1
    return {kind: tuple(numbers) for kind, numbers in found.items()}


calls = st.lists(
    st.tuples(
        st.integers(0, 4),  # after the call before
        st.integers(0, 5),  # lasts
        st.sampled_from(sorted(CAUSES)),
        st.integers(0, 12),  # what it launches starts so long after it began
        st.integers(0, 4),  # and lasts
        st.sampled_from([0, 0, 1]),  # on this device
        st.booleans(),  # a driver call of another name inside
    ),
    max_size=8,
)
spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=4)
process = st.dictionaries(st.sampled_from([1, 2]), st.tuples(calls, spans), min_size=1)


def made_process(
    made: MadeTrace, key: int, content: dict[int, Any], unknown: list[Span]
) -> tuple[dict[int, Thread], dict[int, list[Operation]]]:
    """Add one process's threads and operations; return them by thread and by device."""
    threads: dict[int, Thread] = {}
    devices: dict[int, list[Operation]] = defaultdict(list)
    made.add("process", process_id=key, pid=100 + key)
    for number, (thread_calls, data) in content.items():
        row = {"process_id": key, "thread_id": number}
        thread = threads[number] = Thread(data=[(s, s + n) for s, n in data])
        for start, end in thread.data:
            made.add_range(start, end, "data", domain_id=made.next_id(), **row)
        now = 0
        for gap, length, name, delay, lasts, device, nested in thread_calls:
            start = now + gap
            now = start + length
            thread.calls.append((start, now, name))
            correlation = made.next_id()
            made.add_call(start, now, name, correlation_id=correlation, **row)
            if nested:
                made.add_call(start + length // 3, now - length // 3, "cuCtxGetDevice", **row)
            if CAUSES[name] == "launch":
                made.add_kernel(
                    start + delay, start + delay + lasts, process_id=key, device_id=device,
                    correlation_id=correlation,
                )  # fmt: skip
                devices[device].append(Operation(start + delay, start + delay + lasts, number, now))
    for start, length in unknown:
        made.add_kernel(start, start + length, process_id=key)
        devices[0].append(Operation(start, start + length, None, None))
    return threads, devices


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(
    processes=st.lists(
        st.tuples(process, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=2)),
        min_size=3,
        max_size=6,
    )
)
def test_every_idle_nanosecond_has_one_cause(processes: list[Any]) -> None:
    made = MadeTrace()
    made.add_trace()
    expected = {}
    idle: dict[tuple[int, int], int] = {}
    for key, (content, unknown) in enumerate(processes):
        threads, devices = made_process(made, key, content, unknown)
        for device, operations in devices.items():
            idle[100 + key, device] = sum(e - s for s, e in idle_stretches(operations))
            for cause, numbers in classified(operations, threads).items():
                expected[100 + key, device, cause] = numbers
    rows = metric(made, "idle_causes", window="trace")
    assert {
        (r["pid"], r["device_id"], r["cause"]): (r["idle_ns"], r["gaps"], r["longest_ns"])
        for r in rows
    } == expected
    for of, total in idle.items():
        mine = [r for r in rows if (r["pid"], r["device_id"]) == of]
        assert sum(r["idle_ns"] for r in mine) == total
        assert sum(r["share_pct"] for r in mine) == pytest.approx(100 if total else 0)


def causes(made: MadeTrace) -> dict[str, int]:
    return {row["cause"]: row["idle_ns"] for row in metric(made, "idle_causes", window="trace")}


@pytest.mark.slow
def test_a_gap_of_many_causes() -> None:
    """Until the next kernel's launch is done, what its thread did; then launch latency."""
    made = MadeTrace()
    made.launch(0, 0, 10)
    made.add_call(12, 20, "cudaStreamSynchronize")  # 10 to 12: nothing called, then 8 of waiting
    made.add_range(20, 50, "data")
    made.add_call(30, 33, "cudaMalloc")
    made.launch(60, 70, 80, took=5)
    assert causes(made) == {
        "synchronization": 8,
        "data wait": 27,
        "memory allocation": 3,
        "host work": 2 + 10,
        "launch": 5,
        "launch latency": 5,
    }


@pytest.mark.slow
def test_shares_and_evidence() -> None:
    made = MadeTrace()
    made.launch(0, 0, 10)
    made.launch(14, 20, 50, took=2)
    rows: list[Row] = metric(made, "idle_causes", window="trace")
    assert [(r["cause"], r["share_pct"], r["elapsed_pct"]) for r in rows] == [
        ("host work", 40.0, 8.0),
        ("launch latency", 40.0, 8.0),
        ("launch", 20.0, 4.0),
    ]
    assert {(r["evidence"], r["measured_over"]) for r in rows} == {("estimated", "whole trace")}


def test_the_next_kernel_s_thread_counts_not_the_busiest() -> None:
    made = MadeTrace()
    made.launch(0, 0, 10, thread_id=1)
    made.add_call(10, 40, "cudaDeviceSynchronize", thread_id=1)
    made.launch(35, 40, 50, took=5, thread_id=2)
    assert causes(made) == {"host work": 25, "launch": 5}


@pytest.mark.slow
def test_a_gap_before_work_of_unknown_launch_is_unknown() -> None:
    made = MadeTrace()
    made.launch(0, 0, 10)
    made.add_kernel(30, 40)
    assert causes(made) == {"unknown": 20}


@pytest.mark.slow
def test_idle_time_after_the_last_work_of_the_window() -> None:
    """The window ends after the only kernel: what did the thread do that launched it?"""
    made = MadeTrace()
    made.add_range(0, 100, "step 0")
    made.launch(0, 10, 60, took=2)
    made.add_call(70, 90, "cudaDeviceSynchronize")
    rows = metric(made, "idle_causes", window="iterations")
    # from 60 until 110: the iteration lasts 100 ns from its first operation
    assert {r["cause"]: (r["idle_ns"], r["gaps"]) for r in rows} == {
        "synchronization": (20, 1),
        "host work": (30, 1),
    }


@pytest.mark.slow
def test_idle_time_between_the_iterations_of_the_window() -> None:
    made = MadeTrace()
    for number in range(5):
        at = 100 * number
        made.add_range(at, at + 100, f"step {number}")
        made.launch(at, at + 10, at + 40, took=2)
        made.launch(at + 41, at + 50, at + 60)
        made.add_call(at + 70, at + 90, "cudaDeviceSynchronize")
    rows = metric(made, "idle_causes", window="iterations")
    # gaps 60-110, 160-210, 260-310 and 360-410 end where an iteration begins, 40-50 does not
    assert {r["cause"]: (r["idle_ns"], r["between_ns"], r["gaps"]) for r in rows} == {
        "synchronization": (80, 80, 4),
        "host work": (4 * (20 + 1), 80, 8),
        "launch": (4 * (2 + 1), 8, 8),
        "launch latency": (4 * (8 + 8), 32, 8),
    }
    assert {(r["iterations"], r["measured_over"]) for r in rows} == {(4, "all iterations")}
    assert {r["between_ns"] for r in metric(made, "idle_causes", window="trace")} == {None}


@pytest.mark.slow
def test_without_idle_time_there_is_nothing_to_explain() -> None:
    made = MadeTrace()
    made.launch(0, 0, 10)
    assert causes(made) == {}


@pytest.mark.slow
def test_cudnn_calls_and_the_operating_system_are_no_cuda_calls() -> None:
    made = MadeTrace()
    made.launch(0, 0, 10)
    made.add_call(10, 20, "cudnnSynchronizeEverything", api="cudnn")
    made.add_call(10, 20, "pthread_cond_wait", api="osrt")
    made.launch(20, 25, 30, took=5)
    assert causes(made) == {"host work": 10, "launch": 5}
