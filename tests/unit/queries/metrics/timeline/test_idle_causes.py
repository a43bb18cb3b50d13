"""idle_causes: the idle time of step_breakdown, divided among the causes of ``tbd-trace why``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_loop import MS, PAUSE, TAIL, Loop
from made_trace import MadeDatabase, MadeTrace, Row, metric
from tbd_trace.why.processes import INPUTS, diagnoses

CALLS = ("cudaLaunchKernel", "cudaDeviceSynchronize", "cudaMalloc", "cudaEventRecord")
WORKS = ("gpu_", "communication", "straggler", "copies")  # causes while the GPU works
Span = tuple[int, int]
Device = tuple[int, int]  # process and device


@dataclass
class Operation:
    """One GPU operation."""

    start: int
    end: int


def idle_stretches(operations: list[Operation], window: Span | None = None) -> list[Span]:
    """Return the gaps of the union of the operations, moment by moment."""
    first, last = window or (min(o.start for o in operations), max(o.end for o in operations))
    busy = {at for o in operations for at in range(o.start, o.end)}
    gaps = []
    for idle, times in groupby(range(first, last), lambda at: at not in busy):
        if idle:
            whole = list(times)
            gaps.append((whole[0], whole[-1] + 1))
    return gaps


calls = st.lists(
    st.tuples(
        st.integers(0, 4),  # after the call before
        st.integers(0, 5),  # lasts
        st.sampled_from(CALLS),
        st.integers(0, 12),  # what it launches starts so long after it began
        st.integers(0, 4),  # and lasts
        st.sampled_from([0, 0, 1]),  # on this device
        st.sampled_from(["kernel", "ncclDevKernel_AllReduce", "copy"]),
        st.booleans(),  # its launch is recorded
    ),
    min_size=1,
    max_size=8,
)


def made_process(made: MadeTrace, key: int, steps: list[Any]) -> dict[Device, list[Operation]]:
    """Add a process that does the calls of each step in a range; return its operations."""
    devices: dict[Device, list[Operation]] = defaultdict(list)
    row = {"process_id": key, "thread_id": key}
    made.add("process", process_id=key, pid=100 + key)
    now = 0
    for number, step in enumerate(steps):
        begin = now
        for gap, length, name, delay, lasts, device, kind, is_known in step:
            start = now + gap
            now = start + length
            correlation = made.next_id()
            if is_known:
                made.add_call(start, now, name, correlation_id=correlation, **row)
            if name != "cudaLaunchKernel":
                continue
            span = start + delay, start + delay + lasts
            work = {"process_id": key, "device_id": device, "correlation_id": correlation}
            if kind == "copy":
                made.add_memcpy(*span, **work)
            else:
                made.add_kernel(*span, kind, **work)
            devices[key, device].append(Operation(*span))
        now += 1
        made.add_range(begin, now, f"step {number}", **row)
    return devices


def moments(rows: list[Row]) -> dict[Device, set[int]]:
    """Return the nanoseconds of some intervals, by device."""
    found: dict[Device, set[int]] = defaultdict(set)
    for row in rows:
        span = range(row["start_ns"], row["end_ns"])
        assert found[row["process_id"], row["device_id"]].isdisjoint(span)
        found[row["process_id"], row["device_id"]].update(span)
    return {device: at for device, at in found.items() if at}


def idle_of(database: MadeDatabase, relation: str) -> dict[Device, set[int]]:
    """Return the nanoseconds in which each device is idle, by a relation."""
    column = "activity" if relation == "device_timeline" else "cause"
    rows = database.relation(relation)
    return moments([row for row in rows if not str(row[column]).startswith((*WORKS, "co"))])


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(
    processes=st.lists(st.lists(calls, min_size=1, max_size=5), min_size=3, max_size=6),
    window=st.sampled_from(["trace", "iterations", "steady"]),
)
def test_all_say_the_same_idle_moments(processes: list[Any], window: str) -> None:
    made = MadeTrace()
    made.add_trace()
    devices: dict[Device, list[Operation]] = {}
    for key, steps in enumerate(processes):
        devices |= made_process(made, key, steps)
    if not devices:
        return
    with made.connect() as database:
        database.set(window=window)
        timeline = idle_of(database, "device_timeline")
        assert idle_of(database, "cause_interval") == timeline
        if window == "trace":
            expected = {of: idle_stretches(operations) for of, operations in devices.items()}
            gaps = {of: {at for gap in some for at in range(*gap)} for of, some in expected.items()}
            assert timeline == {of: at for of, at in gaps.items() if at}
        rows = database.metric("idle_causes", window=window)
        steps = database.metric("step_breakdown", window=window)
        database.derive(INPUTS)
        processes = diagnoses(database.connection)
    total: dict[Device, int] = defaultdict(int)
    for row in rows:
        total[row["pid"] - 100, row["device_id"]] += row["idle_ns"]
        assert 0 < row["longest_ns"] <= row["idle_ns"]
    assert total == {of: len(at) for of, at in timeline.items()}
    assert total == {
        (row["pid"] - 100, row["device_id"]): row["idle_ns"] for row in steps if row["idle_ns"]
    }
    for one in processes:
        idle = {c.cause: c.share_pct for c in one.causes if not c.cause.startswith(WORKS)}
        mine = (one.pid, one.device_id)
        assert idle == pytest.approx(
            {r["cause"]: r["elapsed_pct"] for r in rows if (r["pid"], r["device_id"]) == mine}
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "idle", "elapsed"),
    [
        # of each step the GPU is idle in the first and the last 10 ns
        ("steady", 3 * 20, 3 * 100),  # the first step is warm-up
        ("iterations", 4 * 20, 400 + 3 * 100),
        # from the first kernel to the end of the last one
        ("trace", 3 * 20, 700 - 2 * 10),
    ],
)
def test_why_is_about_the_same_window(window: str, idle: int, elapsed: int) -> None:
    made = MadeTrace()
    made.add_trace()
    for start, length in ((0, 400), (400, 100), (500, 100), (600, 100)):
        made.add_range(start, start + length, f"step {start}")
        made.launch(start, start + 10, start + length - 10, took=2)
    with made.connect() as database:
        database.set(window=window)
        rows = database.metric("idle_causes", window=window)
        database.derive(INPUTS)
        (one,) = diagnoses(database.connection)
    assert sum(row["idle_ns"] for row in rows) == idle
    assert one.elapsed_ns == elapsed
    shares = {c.cause: c.share_pct for c in one.causes if not c.cause.startswith(WORKS)}
    assert shares == pytest.approx({row["cause"]: row["elapsed_pct"] for row in rows})
    assert sum(shares.values()) == pytest.approx(100 * idle / elapsed)


def causes(made: MadeTrace) -> dict[str, int]:
    return {row["cause"]: row["idle_ns"] for row in metric(made, "idle_causes", window="trace")}


@pytest.mark.slow
def test_a_gap_of_many_causes() -> None:
    """Back from the launch of the next kernel: what its thread did, call by call."""
    made = MadeTrace()
    made.launch(0, 0, 10_000)
    made.add_call(12_000, 20_000, "cudaStreamSynchronize")
    made.add_range(20_000, 58_000, "data")
    made.add_call(30_000, 33_000, "cudaMalloc")
    made.launch(60_000, 70_000, 80_000, took=5_000)
    assert causes(made) == {
        "synchronization": 8_000,
        "input_pipeline": 25_000,  # of the pause from 33 to 60 µs, what is in the range
        "memory_allocation": 3_000,
        "host": 2_000 + 10_000 + 2_000,  # pauses below 20 µs are no waits for input
        "launch_latency": 10_000,  # from the start of the launch
    }


@pytest.mark.slow
def test_shares_and_evidence() -> None:
    made = MadeTrace()
    made.launch(0, 0, 10)
    made.launch(14, 20, 50, took=2)
    rows: list[Row] = metric(made, "idle_causes", window="trace")
    assert [(r["cause"], r["title"], r["share_pct"], r["elapsed_pct"]) for r in rows] == [
        ("launch_latency", "launch latency", 60.0, 12.0),
        ("host", "host", 40.0, 8.0),
    ]
    assert {(r["evidence"], r["measured_over"]) for r in rows} == {("estimated", "whole trace")}


def test_the_next_kernel_s_thread_counts_not_the_busiest() -> None:
    made = MadeTrace()
    made.launch(0, 0, 10, thread_id=1)
    made.add_call(10, 40, "cudaDeviceSynchronize", thread_id=1)
    made.launch(35, 40, 50, took=5, thread_id=2)
    assert causes(made) == {"host": 25, "launch_latency": 5}


@pytest.mark.slow
def test_a_gap_before_work_of_unknown_launch_is_unknown() -> None:
    made = MadeTrace()
    made.launch(0, 0, 10)
    made.add_kernel(30, 40)
    assert causes(made) == {"unknown": 20}


@pytest.mark.slow
def test_idle_time_after_the_last_work_of_the_window() -> None:
    """The window ends after the only kernel, where the host ends the step."""
    made = MadeTrace()
    made.add_range(0, 100, "step 0")
    made.launch(0, 10, 60, took=2)
    made.add_call(70, 90, "cudaDeviceSynchronize")
    rows = metric(made, "idle_causes", window="iterations")
    # from 0 to 10, and from 60 to 100
    assert {r["cause"]: (r["idle_ns"], r["gaps"]) for r in rows} == {
        "launch_latency": (10, 1),
        "synchronization": (20, 1),
        "host": (20, 1),
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
    # Gaps 0-10, 60-110, 160-210, 260-310, 360-410 and 460-500 are at an end of an iteration; 40-50
    # and the like are not. The launch of a kernel begins 10 or 9 ns before it.
    assert {r["cause"]: (r["idle_ns"], r["between_ns"], r["gaps"]) for r in rows} == {
        "synchronization": (100, 100, 5),
        "host": (5 * (20 + 1), 100, 10),
        "launch_latency": (5 * (10 + 9), 50, 10),
    }
    assert {(r["iterations"], r["measured_over"]) for r in rows} == {(5, "all iterations")}
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
    assert causes(made) == {"host": 10, "launch_latency": 5}


@pytest.mark.slow
def test_each_device_of_a_process_has_its_own_gaps() -> None:
    """Device 0 works more, so ``why`` judges it; device 1 waits for its own launches."""
    made = MadeTrace()
    made.add_range(0, 100, "step 0")
    made.launch(0, 10, 90)
    made.launch(20, 30, 50, device_id=1)
    made.add_call(60, 95, "cudaDeviceSynchronize")
    rows = metric(made, "idle_causes", window="iterations")
    assert {(r["device_id"], r["cause"]): (r["idle_ns"], r["gaps"]) for r in rows} == {
        (0, "launch_latency"): (10, 1),
        (0, "synchronization"): (5, 1),  # 90 to 95
        (0, "host"): (5, 1),  # until the step ends
        (1, "launch_latency"): (10, 1),
        (1, "host"): (20 + 10 + 5, 2),  # 0 to 20, 50 to 60 and 95 to 100
        (1, "synchronization"): (35, 1),
    }


@pytest.mark.slow
def test_stalls_and_loading_of_a_loop() -> None:
    """Each step waits 5 ms for input, and one step stalls for 30 ms before its third launch."""
    loop = Loop(loading_ns=dict.fromkeys(range(12), 5 * MS), stalls={(6, 2): 30 * MS})
    made = loop.run()
    rows = {r["cause"]: r for r in metric(made, "idle_causes")}
    steps = rows["input_pipeline"]["iterations"]
    assert rows["input_pipeline"]["idle_ns"] == pytest.approx(steps * 5 * MS, rel=0.02)
    assert rows["input_pipeline"]["gaps"] == steps
    stall = rows["host_stalls"]
    assert (stall["gaps"], stall["title"]) == (1, "host stalls")
    # Until the stall, the GPU works for at most a step.
    assert 30 * MS - 3 * MS < stall["idle_ns"] <= 30 * MS + PAUSE
    assert rows["synchronization"]["idle_ns"] == steps * TAIL


@pytest.mark.slow
def test_copies_alone_have_causes_too() -> None:
    """Without a kernel, ``why`` judges nothing, but the gaps are there."""
    made = MadeTrace()
    for at in (0, 40):
        made.add_call(at, at + 2, "cudaMemcpyAsync", correlation_id=at + 1)
        made.add_memcpy(at + 5, at + 15, correlation_id=at + 1)
    assert causes(made) == {"launch_latency": 5, "host": 25}


@pytest.mark.slow
def test_on_another_clock_causes_are_unknown() -> None:
    """Both operations begin 60 µs before their launch: no call explains the gap."""
    made = MadeTrace()
    made.add_trace()
    made.launch(100_000, 40_000, 40_010)
    made.launch(110_000, 50_000, 50_010)
    with made.connect() as database:
        (row,) = database.metric("idle_causes", window="trace")
        database.derive(INPUTS)
        (one,) = diagnoses(database.connection)
    assert (row["cause"], row["idle_ns"]) == ("unknown", 9_990)
    assert "start before their launch" in row["reason"]
    shares = {cause.cause: cause.share_pct for cause in one.causes}
    assert shares["unknown"] == row["elapsed_pct"]
    assert "start before their launch" in next(
        c.evidence for c in one.causes if c.cause == "unknown"
    )
