"""analysis_window, device_timeline, compute_util, step_breakdown: a sweep over every nanosecond."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise, takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeDatabase, MadeTrace, Row, metric, relation

Device = tuple[str, int | None, int | None]  # trace, process, device
KINDS = ["compute", "communication", "copy", "fill", "graph"]
PRIORITY = ["compute", "communication", "copy"]


def add(made: MadeTrace, kind: str, start: int, end: int, **row: Any) -> None:
    """Add an operation of a kind."""
    if kind == "compute":
        made.add_kernel(start, end, "volta_sgemm_128x64_nn", **row)
    elif kind == "communication":
        made.add_kernel(start, end, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", **row)
    elif kind == "copy":
        made.add_memcpy(start, end, **row)
    elif kind == "fill":
        made.add_memset(start, end, **row)
    else:
        made.add_graph(start, end, **row)


def activity(kind: str) -> str:
    """Return what an operation of a kind counts as."""
    return {"fill": "copy", "graph": "compute"}.get(kind, kind)


def swept(operations: list[tuple[str, int, int]], start: int, end: int) -> list[set[str]]:
    """Return what runs in each nanosecond from start to end."""
    running: list[set[str]] = [set() for _ in range(start, end)]
    for kind, begin, finish in operations:
        for at in range(max(begin, start), min(finish, end)):
            running[at - start].add(activity(kind))
    return running


def shown(moment: set[str]) -> str:
    return next((kind for kind in PRIORITY if kind in moment), "idle")


def cells(rows: list[Row]) -> dict[Device, list[tuple[str, bool, bool, bool]]]:
    """Return the timeline nanosecond by nanosecond; its stretches must follow each other."""
    found: dict[Device, list[Any]] = defaultdict(list)
    ends: dict[Device, int] = {}
    for row in sorted(rows, key=lambda r: int(r["start_ns"])):
        device = (row["trace_id"], row["process_id"], row["device_id"])
        assert row["duration_ns"] == row["end_ns"] - row["start_ns"] > 0
        assert ends.get(device, row["start_ns"]) == row["start_ns"]
        ends[device] = row["end_ns"]
        cell = (
            row["activity"],
            row["kernel_active"],
            row["communication_active"],
            row["copy_active"],
        )
        found[device] += [cell] * row["duration_ns"]
    return found


device = st.tuples(
    st.sampled_from(["t", "u"]), st.sampled_from([1, 2, None]), st.sampled_from([0, 1, None])
)
operation = st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 9))


def made_operations(
    devices: dict[Device, list[tuple[str, int, int]]],
) -> tuple[MadeTrace, dict[Device, list[tuple[str, int, int]]]]:
    made = MadeTrace()
    spans: dict[Device, list[tuple[str, int, int]]] = {}
    for (trace, process, number), operations in devices.items():
        spans[trace, process, number] = []
        for stream, (kind, start, length) in enumerate(operations):
            row = {"trace_id": trace, "process_id": process, "device_id": number}
            add(made, kind, start, start + length, stream_id=stream % 3, **row)
            spans[trace, process, number].append((kind, start, start + length))
    return made, spans


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(devices=st.dictionaries(device, st.lists(operation, min_size=1, max_size=9), min_size=3))
def test_the_union_of_operations_is_a_sweep(
    devices: dict[Device, list[tuple[str, int, int]]],
) -> None:
    """Streams overlap; processes, devices and traces do not see each other."""
    made, spans = made_operations(devices)
    with made.connect() as database:
        database.set(window="trace")  # kernels in random order may show a period
        check_timeline(database, spans)
        check_metrics(database, spans)


def check_timeline(database: MadeDatabase, spans: dict[Device, Any]) -> None:
    found = cells(database.relation("device_timeline"))
    for (trace, process, number), operations in spans.items():
        key = (trace, -1 if process is None else process, -1 if number is None else number)
        start, end = min(s for _, s, _ in operations), max(e for _, _, e in operations)
        assert found.pop(key, []) == [
            (
                shown(moment),
                bool(moment & {"compute", "communication"}),
                "communication" in moment,
                "copy" in moment,
            )
            for moment in swept(operations, start, end)
        ]
    assert not found


def check_metrics(database: MadeDatabase, spans: dict[Device, Any]) -> None:
    """compute_util and step_breakdown have one row per device that was used for any time."""
    expected_util: Counter[Any] = Counter()
    expected_steps: Counter[Any] = Counter()
    for (trace, _, number), operations in spans.items():
        start, end = min(s for _, s, _ in operations), max(e for _, _, e in operations)
        moments = swept(operations, start, end)
        if not moments:
            continue
        parts = Counter(shown(moment) for moment in moments)
        kernels = parts["compute"] + parts["communication"]
        busy = kernels + parts["copy"]
        n = len(moments)
        expected_util[trace, number, busy, kernels, n, 100 * busy / n, 100 * kernels / n] += 1
        talk = sum("communication" in moment for moment in moments)
        hidden = 100 * (talk - parts["communication"]) / talk if talk else None
        split = tuple(parts[kind] for kind in (*PRIORITY, "idle"))
        expected_steps[(trace, number, n, *split, talk, hidden)] += 1
    util = ["trace_id", "device_id", "gpu_busy_ns", "kernel_busy_ns", "elapsed_ns"]
    util += ["gpu_busy_pct", "kernel_busy_pct"]
    steps = ["trace_id", "device_id", "elapsed_ns", "compute_ns", "exposed_communication_ns"]
    steps += ["exposed_copy_ns", "idle_ns", "communication_ns", "overlap_pct"]
    for name, columns, expected in (
        ("compute_util", util, expected_util),
        ("step_breakdown", steps, expected_steps),
    ):
        rows = database.metric(name)
        assert Counter(tuple(row[column] for column in columns) for row in rows) == expected


@pytest.mark.slow
def test_two_streams_are_a_union_not_a_sum() -> None:
    made = MadeTrace()
    made.add_kernel(0, 100, stream_id=7)
    made.add_kernel(0, 100, stream_id=8)
    made.add_kernel(150, 200, stream_id=7)
    [row] = metric(made, "compute_util")
    assert (row["gpu_busy_ns"], row["elapsed_ns"], row["gpu_busy_pct"]) == (150, 200, 75.0)


@pytest.mark.slow
def test_communication_hidden_by_compute() -> None:
    made = MadeTrace()
    add(made, "compute", 0, 60)
    add(made, "communication", 40, 100, stream_id=8)
    add(made, "copy", 90, 120, stream_id=9)
    add(made, "compute", 130, 140)
    [row] = metric(made, "step_breakdown")
    assert {name: value for name, value in row.items() if name.endswith(("_ns", "_pct"))} == {
        "elapsed_ns": 140,
        "compute_ns": 70,
        "exposed_communication_ns": 40,
        "exposed_copy_ns": 20,
        "idle_ns": 10,
        "idle_between_ns": None,
        "compute_pct": 50.0,
        "exposed_communication_pct": pytest.approx(100 * 40 / 140),
        "exposed_copy_pct": pytest.approx(100 * 20 / 140),
        "idle_pct": pytest.approx(100 * 10 / 140),
        "communication_ns": 60,
        "overlap_pct": pytest.approx(100 * 20 / 60),
    }


@pytest.mark.slow
def test_without_communication_there_is_no_overlap() -> None:
    made = MadeTrace()
    add(made, "compute", 0, 60)
    [row] = metric(made, "step_breakdown")
    assert (row["communication_ns"], row["overlap_pct"]) == (0, None)


# the window


def train(
    made: MadeTrace, busy: list[tuple[int, int]], *, first: int = 100, device_id: int = 0
) -> None:
    """Add iterations of 100 ns on the host, 10 of them between the ranges.

    In each a kernel runs (delay, length) after it began. So much passes between ranges that the
    end of the last iteration is not known.

    Args:
        first: length of the first iteration, which is warm-up if it is longer than the others: it
            is the first use of the kernel.
    """
    at = 0
    for number, (delay, length) in enumerate(busy):
        period = 100 if number else first
        if device_id == 0:
            made.add_range(at, at + period - 10, f"step {number}")
        made.launch(at + 1, at + delay, at + delay + length, device_id=device_id)
        at += period


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("steady", ("steady state", 1, 3, 3, 150, 450)),
        ("iterations", ("all iterations", 0, 3, 4, 8, 450)),
        ("trace", ("whole trace", None, None, None, 5, 480)),
    ],
)
def test_what_the_window_spans(window: str, expected: tuple[Any, ...]) -> None:
    """From the start of its first iteration on the host to that of the iteration after its last.

    Iteration 0 takes 150 ns, the others 100; a kernel from before it runs until 8.
    """
    made = MadeTrace()
    made.add_kernel(5, 8, "before any iteration")
    train(made, [(10, 20)] * 5, first=150)
    [row] = relation(made, "analysis_window", window=window)
    columns = ("measured_over", "first_iteration", "last_iteration", "iterations")
    assert tuple(row[name] for name in (*columns, "start_ns", "end_ns")) == expected
    assert row["elapsed_ns"] == row["end_ns"] - row["start_ns"]


@pytest.mark.slow
def test_iterations_as_fast_as_the_others_are_no_warm_up() -> None:
    """Iteration 0 is the first use of the kernel, but takes 100 ns, as do the others."""
    made = MadeTrace()
    train(made, [(10, 20)] * 5)
    [row] = relation(made, "analysis_window")
    assert (row["measured_over"], row["iterations"]) == ("steady state", 4)
    assert (row["start_ns"], row["end_ns"], row["elapsed_ns"]) == (0, 400, 400)


@pytest.mark.slow
@pytest.mark.parametrize(("took", "end"), [(20, 495), (90, 400 + 10 + 90)])
def test_the_last_range_ends_where_the_next_would_begin(took: int, end: int) -> None:
    """5 of 100 ns pass between ranges: the last one ends its iteration, or its kernel does."""
    made = MadeTrace()
    for number, length in enumerate([20, 20, 20, 20, took]):
        at = 100 * number
        made.add_range(at, at + 95, f"step {number}")
        made.launch(at + 1, at + 10, at + 10 + length)
    [row] = relation(made, "analysis_window")
    assert (row["first_iteration"], row["last_iteration"], row["iterations"]) == (0, 4, 5)
    assert (row["start_ns"], row["end_ns"], row["elapsed_ns"]) == (0, end, end)


@pytest.mark.parametrize(("took", "end"), [(20, 90), (200, 10 + 200)])
def test_the_only_iteration_s_work_is_all_in_the_window(took: int, end: int) -> None:
    """Nothing follows it: it ends with its range, or with its work."""
    made = MadeTrace()
    train(made, [(10, took)])
    [row] = relation(made, "analysis_window")
    assert (row["measured_over"], row["iterations"]) == ("all iterations", 1)
    assert (row["start_ns"], row["end_ns"]) == (0, end)


@pytest.mark.slow
def test_work_outside_iterations_does_not_stretch_the_window() -> None:
    made = MadeTrace()
    train(made, [(10, 20)] * 4)
    for number, start in ((4, 700), (5, 900)):  # not marked: no iteration, no window
        made.launch(100 * number + 1, start, start + 5, "stray")
    [row] = relation(made, "analysis_window", window="iterations")
    assert (row["start_ns"], row["end_ns"]) == (0, 300)
    only = MadeTrace()
    train(only, [(10, 20)])
    only.launch(101, 700, 705, "stray")
    [row] = relation(only, "analysis_window", window="iterations")
    assert (row["start_ns"], row["end_ns"]) == (0, 90)


@pytest.mark.slow
def test_iterations_by_gpu_time() -> None:
    """The host runs ahead; an iteration lasts until the next one's first operation.

    From the first to the last of these, 590 ns pass on the GPU and 500 on the host.
    """
    made = MadeTrace()
    train(made, [(110, 20), (150, 40), (120, 30), (110, 20), (110, 20), (200, 50)])
    rows = metric(made, "step_breakdown", by="iteration", window="iterations")
    starts = [110, 250, 320, 410, 510, 700]
    assert [(r["iteration"], r["elapsed_ns"], r["compute_ns"]) for r in rows] == [
        (0, 140, 20),
        (1, 70, 40),
        (2, 90, 30),
        (3, 100, 20),
        (4, 190, 20),
    ]
    assert [b - a for a, b in pairwise(starts)] == [r["elapsed_ns"] for r in rows]
    whole = metric(made, "step_breakdown", window="iterations")
    assert [r["elapsed_ns"] for r in whole] == [starts[-1] - starts[0]]
    assert whole[0]["compute_ns"] == sum(r["compute_ns"] for r in rows)


@pytest.mark.slow
def test_devices_of_one_process_share_the_window() -> None:
    """The host sets it: from the start of iteration 0 to that of iteration 5."""
    made = MadeTrace()
    train(made, [(10, 20)] * 6)
    train(made, [(40, 10)] * 6, device_id=1)
    rows = relation(made, "analysis_window")
    assert [(r["device_id"], r["start_ns"], r["end_ns"], r["iterations"]) for r in rows] == [
        (0, 0, 500, 5),
        (1, 0, 500, 5),
    ]
    util = metric(made, "compute_util")
    assert [(r["device_id"], r["gpu_busy_ns"]) for r in util] == [(0, 100), (1, 50)]


@pytest.mark.slow
def test_operations_of_other_iterations_leave_the_window_s_metrics_alone() -> None:
    made = MadeTrace()
    train(made, [(10, 90), (10, 20), (10, 20), (10, 20), (10, 20), (10, 90)], first=150)
    with made.connect() as database:
        rows = database.relation("window_op")
    assert [(r["iteration"], r["duration_ns"]) for r in rows] == [(n, 20) for n in (1, 2, 3, 4)]


@pytest.mark.slow
def test_work_that_reaches_into_the_window_counts_while_it_is_in_it() -> None:
    """A copy that began before the window, and one that ends after it, are cut at its ends.

    The first runs alone until the kernel begins at 160.
    """
    made = MadeTrace()
    train(made, [(10, 20)] * 6, first=150)
    made.add_memcpy(135, 165, stream_id=9)  # the window begins at 150
    made.add_memcpy(540, 700, stream_id=9)  # and ends at 550
    rows = relation(made, "device_timeline")
    assert (min(r["start_ns"] for r in rows), max(r["end_ns"] for r in rows)) == (150, 550)
    [row] = metric(made, "step_breakdown")
    assert (row["elapsed_ns"], row["compute_ns"], row["exposed_copy_ns"]) == (400, 80, 20)
    [row] = metric(made, "compute_util")
    assert row["gpu_busy_ns"] == 100


# idle time between iterations


def idle_parts(operations: list[tuple[int, int]], edges: list[int]) -> tuple[int, int]:
    """Return the idle time of the window, and that of the gaps around its iterations' edges.

    Args:
        operations: (start, end) of all.
        edges: start of each iteration of the window, and the end of the last.
    """
    moments = range(edges[0], edges[-1])
    idle = {now for now in moments if not any(s <= now < e for s, e in operations)}
    between: set[int] = set()
    for edge in edges:
        for gap in (range(edge - 1, edges[0] - 1, -1), range(edge, edges[-1])):
            between |= set(takewhile(idle.__contains__, gap))
    return len(idle), len(between)


Stretch = tuple[int, int]  # delay or start, and length


def delayed(
    made: MadeTrace, trace: str, iterations: list[list[Stretch]], strays: list[Stretch]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Add a trace; return the edges of its iterations but the last, and (start, end) of all work.

    Iterations begin every 100 ns on the host. The end of the last one is not known: 10 ns pass
    between ranges. Work that no iteration launched, and that begins before the first operation of
    iteration 0, is left over from before it: iteration 0 begins as it ends, at the latest with its
    own first operation.
    """
    operations = []
    for number, work in enumerate(iterations):
        at = 100 * number
        made.add_range(at, at + 90, f"step {number}", trace_id=trace)
        for place, (delay, took) in enumerate(work):
            start = at + delay
            operations.append((start, start + took))
            row = {"trace_id": trace, "stream_id": place}
            made.launch(at + place, start, start + took, **row)
    first = min(delay for delay, _ in iterations[0])
    begin = min(first, max([0, *(start + took for start, took in strays if start < first)]))
    for start, took in strays:
        made.add_kernel(start, start + took, "stray", trace_id=trace, stream_id=9)
        operations.append((start, start + took))
    return [begin, *range(100, 100 * len(iterations), 100)], operations


def check_idle_time(
    told: dict[str, list[Row]], edges: list[int], operations: list[tuple[int, int]]
) -> None:
    """Check what is told of one trace against a sweep."""
    begin, end = edges[0], edges[-1]
    assert [(r["start_ns"], r["end_ns"]) for r in told["window"]] == [(begin, end)]
    [row], [util] = told["whole"], told["util"]
    causes, by_iteration = told["causes"], told["by_iteration"]
    idle, between = idle_parts(operations, edges)
    assert (row["elapsed_ns"], row["idle_ns"], row["idle_between_ns"]) == (
        end - begin, idle, between,
    )  # fmt: skip
    parts = ("compute_ns", "exposed_communication_ns", "exposed_copy_ns", "idle_ns")
    assert sum(row[part] for part in parts) == row["elapsed_ns"] == util["elapsed_ns"]
    assert row["elapsed_ns"] - row["idle_ns"] == util["gpu_busy_ns"]
    assert sum(c["idle_ns"] for c in causes) == idle
    assert sum(c["between_ns"] for c in causes) == between
    assert [r["iteration"] for r in by_iteration] == list(range(len(edges) - 1))
    assert [r["elapsed_ns"] for r in by_iteration] == [b - a for a, b in pairwise(edges)]
    assert sum(r["idle_between_ns"] for r in by_iteration) == between
    over = {(r["iterations"], r["measured_over"]) for r in (row, util, *causes, *by_iteration)}
    assert over == {(len(edges) - 1, "steady state")}


def iterations_with(others: int) -> st.SearchStrategy[list[list[Stretch]]]:
    """Return iterations with one operation that starts early, and some others.

    The first operations are so regular that the host does not seem to run ahead of the GPU.
    """
    early = st.tuples(st.integers(0, 10), st.integers(1, 60))
    late = st.tuples(st.integers(10, 95), st.integers(1, 60))
    work = st.tuples(early, *[late] * others).map(list)
    return st.lists(work, min_size=3, max_size=8)


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(
    traces=st.lists(
        st.tuples(
            st.integers(0, 3).flatmap(iterations_with),
            st.lists(st.tuples(st.integers(0, 600), st.integers(1, 30)), max_size=3),
        ),
        min_size=3,
        max_size=8,
    )
)
def test_idle_time_between_iterations(
    traces: list[tuple[list[list[Stretch]], list[Stretch]]],
) -> None:
    """Work of an iteration may reach into the next, and overlap; strays belong to none."""
    made = MadeTrace()
    added = {f"t{n}": delayed(made, f"t{n}", *trace) for n, trace in enumerate(traces)}
    with made.connect() as database:
        answers = {
            "window": [r for r in database.relation("analysis_window") if r["iterations"]],
            "whole": database.metric("step_breakdown"),
            "causes": database.metric("idle_causes"),
            "by_iteration": database.metric("step_breakdown", by="iteration"),
            "util": database.metric("compute_util", by="trace"),
        }
    for trace, (edges, operations) in added.items():
        mine = {n: [r for r in rows if r["trace_id"] == trace] for n, rows in answers.items()}
        check_idle_time(mine, edges, operations)


@pytest.mark.slow
def test_idle_time_between_iterations_worked_by_hand() -> None:
    """Of each 100 ns a kernel takes 20, 10 pass, another takes 30: 40 are idle around the edges.

    Of these 10 are at the beginning of an iteration and 30 at the end; the last one does not count.
    """
    made = MadeTrace()
    for number in range(5):
        at = 100 * number
        made.add_range(at, at + 90, f"step {number}")
        made.launch(at + 1, at + 10, at + 30)
        made.launch(at + 3, at + 40, at + 70)
    rows = relation(made, "device_timeline")
    assert [
        (r["iteration"], r["start_ns"], r["duration_ns"], r["is_between"])
        for r in rows
        if r["activity"] == "idle"
    ] == [
        (number, 100 * number + start, length, between)
        for number in (0, 1, 2, 3)
        for start, length, between in ((0, 10, True), (30, 10, False), (70, 30, True))
    ]
    [row] = metric(made, "step_breakdown")
    assert (row["elapsed_ns"], row["idle_ns"], row["idle_between_ns"]) == (400, 200, 160)
    [whole] = metric(made, "step_breakdown", window="trace")
    assert (whole["idle_ns"], whole["idle_between_ns"]) == (50 + 4 * 40, None)
    assert not any(r["is_between"] for r in relation(made, "device_timeline", window="trace"))


@pytest.mark.slow
def test_a_device_without_length_of_time_has_no_row() -> None:
    made = MadeTrace()
    made.add_kernel(5, 5)
    made.add_kernel(0, 9, device_id=1)
    assert [row["device_id"] for row in metric(made, "compute_util")] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("described_for", [None, 1])
def test_the_device_s_name(described_for: int | None) -> None:
    made = MadeTrace()
    made.add_device(name="GPU A", process_id=described_for)
    made.add("process", process_id=1, pid=4242)
    made.add_kernel(0, 9)
    made.add_kernel(0, 9, process_id=2)
    rows = metric(made, "compute_util")
    assert [(r["pid"], r["device"]) for r in rows] == [
        (4242, "GPU A"),
        (None, None if described_for else "GPU A"),
    ]
