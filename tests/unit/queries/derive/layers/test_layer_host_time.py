"""Exclusive host time of layers: layer_host_time, and what it makes of dominant_layer."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeTrace, metric, nested, relation

ITERATIONS = [(0, 20), (25, 45), (45, 70)]  # of thread 1; a last one follows, which never counts
TEXTS = ["layer:a", "layer:b", "layer_backward:a", "layer_backward:c", "phase:forward"]
Key = tuple[Any, ...]


def host_times(made: MadeTrace, **parameters: Any) -> dict[Key, int]:
    """Return the host time by iteration, layer, phase and evidence."""
    [found] = host_times_of_traces(made, **parameters).values()
    return found


def host_times_of_traces(made: MadeTrace, **parameters: Any) -> dict[str, dict[Key, int]]:
    """Return by trace the host time by iteration, layer, phase and evidence."""
    rows = relation(made, "layer_host_time", window="iterations", **parameters)
    found: dict[str, dict[Key, int]] = defaultdict(dict)
    for r in rows:
        key = (r["iteration"], r["layer"], r["phase"], r["layer_evidence"])
        found[r["trace_id"]][key] = r["host_ns"]
    assert sum(map(len, found.values())) == len(rows)
    assert all(all(times.values()) for times in found.values())
    return found


def owned_and_not(made: MadeTrace) -> dict[str, Counter[Key]]:
    """Return by trace the host time of each layer, and that of none by iteration alone."""
    found: dict[str, Counter[Key]] = defaultdict(Counter)
    for trace, times in host_times_of_traces(made).items():
        for (iteration, layer, *rest), time in times.items():
            found[trace][(iteration, layer, *rest) if layer else (iteration, None)] += time
    return found


def with_iterations() -> MadeTrace:
    made = MadeTrace()
    add_iterations(made)
    return made


def add_iterations(made: MadeTrace, trace: str = "t") -> None:
    for number, (start, end) in enumerate(ITERATIONS):
        made.add_range(start, end, f"iteration {number}", trace_id=trace)
    made.add_range(100, 105, "iteration 3", trace_id=trace)


def counted(threads: list[list[tuple[int, int, str]]]) -> Counter[Key]:
    """Count, one by one, the nanoseconds that each layer owns, and those that none does.

    Args:
        threads: the ranges of each thread, (start, end, text), outer ones before inner ones.
    """
    found: Counter[Key] = Counter()
    for number, (first, end) in enumerate(ITERATIONS):
        for now in range(first, end):
            owners = []
            for made in threads:
                open_now = [text for start, stop, text in made if start <= now < stop]
                layers = [text for text in open_now if text.startswith("layer")]
                if not layers:
                    continue
                backward = any(text.startswith("layer_backward:") for text in open_now)
                forward = "forward" if "phase:forward" in open_now else None
                phase = "backward" if backward else forward
                evidence = "nvtx backward" if backward else "nvtx"
                owners.append((number, layers[-1].split(":")[1], phase, evidence))
            found.update(owners or [(number, None)])
    return found


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=24)


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(
    traces=st.lists(st.lists(steps, min_size=1, max_size=3), min_size=4, max_size=12),
    data=st.data(),
)
def test_every_nanosecond_is_counted_once(traces: list[Any], data: st.DataObject) -> None:
    made = MadeTrace()
    expected = {}
    for number, threads in enumerate(traces):
        trace = f"t{number}"
        add_iterations(made, trace)
        made.add_range(80, 90, "layer:outside", trace_id=trace, thread_id=9)
        ranges = []
        for thread, moves in enumerate(threads, 2):
            mine = [(s, e, data.draw(st.sampled_from(TEXTS))) for s, e, _ in nested(moves)]
            for start, end, text in mine:
                made.add_range(start, end, text, trace_id=trace, thread_id=thread)
            ranges.append(mine)
        expected[trace] = counted(ranges)
    assert owned_and_not(made) == expected


def owner_of(open_now: list[tuple[int, str]]) -> Key | None:
    """Return layer, phase and evidence by the ranges that are open, the first to begin first."""
    texts = [text for _, text in open_now]
    backward = any(text.startswith("layer_backward:") for text in texts)
    phases = [text.removeprefix("phase:") for text in texts if text.startswith("phase:")]
    convention = [text.split(":")[1] for text in texts if text.startswith("layer")]
    module = ["torch.conv2d" for text in texts if text == MODULE]
    operator = [text for text in texts if text.startswith("aten::")]
    layer = [*convention[-1:], *module[:1], *operator[:1]]
    if not layer:
        return None
    phase = "backward" if backward else phases[-1] if phases else None
    return layer[0], phase, "nvtx backward" if backward else "nvtx"


MODULE = "{'mod': 'torch', 'op': 'conv2d', 'args': []}"


Span = tuple[int, int, int, str, str]  # thread, start, length, text, kind


def owned(spans: list[Span]) -> Counter[Key]:
    """Count, one by one, the nanoseconds that each layer owns, and those that none does."""
    expected: Counter[Key] = Counter()
    for number, (first, end) in enumerate(ITERATIONS):
        for now in range(first, end):
            owners = []
            for thread in (2, 3, 4):
                # sorting is stable: of those that begin together the first in the file is first
                open_now = sorted(
                    (
                        (s, text)
                        for of, s, length, text, _ in spans
                        if of == thread and s <= now < s + length
                    ),
                    key=lambda one: one[0],
                )
                if (owner := owner_of(open_now)) is not None:
                    owners.append((number, *owner))
            expected.update(owners or [(number, None)])
    return expected


span = st.tuples(
    st.integers(2, 4),  # thread
    st.integers(0, 75),
    st.integers(0, 30),
    st.sampled_from([*TEXTS, MODULE, "aten::a", "aten::b", "phase:data"]),
    st.sampled_from(["push_pop", "start_end"]),
)


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(traces=st.lists(st.lists(span, max_size=14), min_size=4, max_size=12))
def test_ranges_that_cross_each_other(traces: list[list[Span]]) -> None:
    """Start/end ranges may, on several domains anything may; ties go by the order of the file."""
    made = MadeTrace()
    for number, spans in enumerate(traces):
        trace = f"t{number}"
        add_iterations(made, trace)
        made.add_range(80, 90, "layer:outside", trace_id=trace, thread_id=9)
        for thread, start, length, text, kind in spans:
            row = {"trace_id": trace, "thread_id": thread, "kind": kind}
            made.add_range(start, start + length, text, **row)
    assert owned_and_not(made) == {f"t{n}": owned(spans) for n, spans in enumerate(traces)}


@pytest.mark.slow
def test_children_of_children_are_taken_off_once() -> None:
    made = with_iterations()
    for start, _ in ITERATIONS:
        made.add_range(start + 1, start + 19, "layer:outer")
        made.add_range(start + 2, start + 12, "layer:middle")
        made.add_range(start + 3, start + 8, "layer:inner")
        made.add_range(start + 13, start + 14, "layer:middle")
    found = Counter[str | None]()
    for (_, layer, *_), time in host_times(made).items():
        found[layer] += time
    assert found == {"outer": 3 * 7, "middle": 3 * 6, "inner": 3 * 5, None: 2 + 2 + 7}


@pytest.mark.slow
def test_what_a_framework_marks_inside_a_layer_is_the_layers() -> None:
    """Operators lie in another domain, and a layer's own range says more than they do."""
    made = with_iterations()
    for start, _ in ITERATIONS:
        made.add_range(start + 1, start + 11, "layer:conv", domain="tbd_trace", domain_id=1)
        made.add_range(start + 3, start + 9, "aten::conv2d, seq = 4")
        made.add_range(start + 4, start + 8, "aten::convolution, seq = 4")
        made.add_range(start + 12, start + 15, "aten::relu, seq = 5")
    found = {key[:2]: time for key, time in host_times(made).items() if key[1]}
    assert found == {
        (number, layer): time
        for number in range(3)
        for layer, time in (("conv", 10), ("aten::relu", 3))
    }


@pytest.mark.slow
def test_backward_operators_belong_to_the_layer_of_the_forward_one() -> None:
    made = with_iterations()
    for number, (start, _) in enumerate(ITERATIONS):
        made.add_range(start + 1, start + 5, "layer:fc")
        made.add_range(start + 2, start + 4, f"aten::linear, seq = {number}")
        made.add_range(start + 8, start + 14, f"AddmmBackward0, seq = {number}", thread_id=2)
    assert {key[1:]: time for key, time in host_times(made).items() if key[0] == 1 and key[1]} == {
        ("fc", "forward", "nvtx"): 2,
        ("fc", None, "nvtx"): 2,
        ("fc", "backward", "sequence"): 6,
    }


@pytest.mark.slow
def test_the_window_of_a_program_without_iterations_is_all_that_it_marks() -> None:
    made = MadeTrace()
    made.add_range(10, 20, "phase:data")
    made.add_range(20, 50, "layer:a")
    made.add_range(70, 110, "layer:b")
    rows = metric(made, "dominant_layer")
    assert [(r["layer"], r["host_ns"], r["share_pct"]) for r in rows] == [
        ("b", 40, 40.0),
        ("a", 30, 30.0),
        (None, 30, 30.0),
    ]
    assert {r["measured_over"] for r in rows} == {"whole trace"}
    assert {r["unattributed_pct"] for r in rows} == {30.0}


@pytest.mark.slow
def test_a_range_that_begins_and_ends_on_different_threads_counts() -> None:
    made = with_iterations()
    for start, _ in ITERATIONS:
        made.add_range(
            start + 1, start + 9, "layer_backward:a", kind="start_end", thread_id=2, end_thread_id=3
        )
    assert host_times(made)[0, "a", "backward", "nvtx backward"] == 8


@pytest.mark.slow
def test_layers_of_concurrent_threads_add_up() -> None:
    made = with_iterations()
    for start, _ in ITERATIONS:
        for thread in (2, 3):
            made.add_range(start, start + 10, "layer:a", thread_id=thread)
    rows = metric(made, "dominant_layer", window="iterations")
    assert [(r["layer"], r["host_ns"]) for r in rows] == [("a", 60), (None, 35)]
    assert rows[0]["share_pct"] == pytest.approx(100 * 60 / 95)
    assert rows[0]["unattributed_pct"] == pytest.approx(100 * 35 / 65)


@pytest.mark.slow
def test_an_idle_process_counts_for_nothing() -> None:
    made = with_iterations()
    made.add_range(0, 65, "layer:a")
    made.add_range(0, 1000, "waiting for the others", process_id=2, thread_id=4)
    [row, rest] = metric(made, "dominant_layer", window="iterations", layer_pattern="^layer:(.*)")
    assert (row["layer"], row["host_ns"]) == ("a", 60)
    assert (rest["layer"], rest["host_ns"]) == (None, 5)


# the clock


def on_a_gpu() -> MadeTrace:
    """Two layers of which one has kernels, the other takes more of the host's time."""
    made = with_iterations()
    for start, _ in ITERATIONS:
        made.add_range(start + 1, start + 5, "layer:kernels")
        made.launch(start + 2, start + 3, start + 18)
        made.add_range(start + 5, start + 15, "layer:host")
    made.launch(101, 102, 103)  # in the last iteration: the GPU was recorded until there
    return made


@pytest.mark.slow
def test_the_clock_decides_which_layers_are_told() -> None:
    told = [
        [
            (r["rank"], r["layer"], r["gpu_ns"], r["host_ns"], r["kernels"], r["clock"])
            for r in metric(on_a_gpu(), "dominant_layer", window="iterations", clock=clock)
        ]
        for clock in ("auto", "gpu", "host")
    ]
    assert told[0] == told[1] == [(1, "kernels", 45, 12, 3, "gpu")]
    assert told[2] == [
        (1, "host", 0, 30, 0, "host"),
        (2, "kernels", 45, 12, 3, "host"),
        (None, None, 0, 23, 0, "host"),
    ]


@pytest.mark.slow
def test_kernel_classes_own_no_host_time() -> None:
    made = on_a_gpu()
    chosen = {"window": "iterations", "attribution": "kernel class"}
    assert [r["host_ns"] for r in metric(made, "dominant_layer", **chosen)] == [None]
    [row] = metric(made, "dominant_layer", clock="host", by="type", attribution="kernel class")
    assert (row["rank"], row["unattributed_pct"], row["evidence"]) == (None, 100.0, None)


def test_iterations_without_a_gpu_count_no_kernels() -> None:
    rows = metric(with_iterations(), "iteration_timing")
    assert {(r["kernels"], r["kernel_ns"], r["gpu_ns"]) for r in rows} == {(None, None, None)}
