"""iteration: its times, and the stable window against the rule written out in Python."""

from __future__ import annotations

import math
import statistics
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_trace import MadeTrace, Row, relation

Window = tuple[int | None, bool]  # first iteration of the window, and whether that is beyond doubt


def train(
    made: MadeTrace,
    periods: list[int],
    *,
    new_kernels: set[int] = frozenset(),  # type: ignore[assignment]
    growth: set[int] = frozenset(),  # type: ignore[assignment]
    **row: Any,
) -> None:
    """Add iterations that last ``periods``, and a last one that nothing follows."""
    start = 0
    for number, period in enumerate([*periods, 1000]):
        made.add_range(start, start + 9 * period // 10, f"step {number}", **row)
        made.launch(start + 1, start + 50, start + 60, "always", **row)
        if number in new_kernels:
            made.launch(start + 3, start + 70, start + 80, f"first in {number}", **row)
        if number in growth:
            made.add_call(start + 5, start + 6, "cudaMalloc", **row)
        start += period


def stable_window(periods: list[int], last_warm_up: int, limit: float = 0.05) -> Window:
    """Return where the longest suffix without trend and with little spread begins.

    |Theil-Sen slope| * n is below one standard deviation (or both are zero), and the standard
    deviation below 5 % of the mean.
    """
    sure = True
    for first in range(last_warm_up + 1, len(periods) - 2):
        suffix = periods[first:]
        slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(suffix), 2)]
        drift = abs(statistics.median(slopes)) * len(suffix)
        spread, most = statistics.stdev(suffix), limit * statistics.fmean(suffix)
        if any(math.isclose(a, b) and a for a, b in ((drift, spread), (spread, most))):
            sure = False
        elif spread < most and (drift < spread or drift == spread == 0):
            return first, sure
    return None, sure


def checked(rows: list[Row], window: int | None, new: set[int], grown: set[int]) -> None:
    """Assert window and reasons of one process's iterations."""
    warm_up = {0, *new, *grown}
    for row in rows:
        number = row["iteration"]
        if window is not None and number >= window:
            expected = None
        elif number in {0, *new}:
            expected = "first use of a kernel"
        elif number in grown:
            expected = "allocator growth"
        elif number < max(warm_up):
            expected = "before the end of warm-up"
        else:
            expected = "no stable window" if window is None else "trend or spread"
        assert (row["in_window"], row["dropped"]) == (expected is None, expected)


periods_of_a_run = st.one_of(
    st.lists(st.integers(980, 1020), max_size=14),
    st.lists(st.sampled_from([1000, 1000, 1001, 1040, 1300]), max_size=14),
    st.builds(
        lambda slow, steady: sorted(slow, reverse=True) + steady,
        st.lists(st.integers(1100, 3000), max_size=5),
        st.lists(st.integers(990, 1010), max_size=9),
    ),
    st.builds(
        lambda n, drift: [1000 + drift * i for i in range(n)],
        st.integers(0, 14),
        st.integers(-9, 9),
    ),
)


@settings(max_examples=12, deadline=None)
@given(
    runs=st.lists(
        st.tuples(
            periods_of_a_run,
            st.sets(st.integers(0, 5), max_size=1),  # a kernel first seen there
            st.sets(st.integers(0, 5), max_size=1),  # memory allocated and not freed there
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_window_is_the_longest_stable_suffix(
    runs: list[tuple[list[int], set[int], set[int]]],
) -> None:
    made = MadeTrace()
    for process, (periods, new, grown) in enumerate(runs):
        train(made, periods, new_kernels=new, growth=grown, process_id=process)
    rows = relation(made, "iteration")
    for process, (periods, new, grown) in enumerate(runs):
        mine = sorted(
            (r for r in rows if r["process_id"] == process), key=lambda r: int(r["iteration"])
        )
        assert [r["iteration"] for r in mine] == list(range(len(periods) + 1))
        assert [r["period_ns"] for r in mine] == [*periods, None]
        first_seen, grew = ({n for n in numbers if n <= len(periods)} for numbers in (new, grown))
        window, sure = stable_window(periods, max({0} | first_seen | grew))
        if sure:
            checked(mine, window, first_seen, grew)


def window_of(made: MadeTrace, **parameters: Any) -> list[int]:
    return sorted(
        r["iteration"] for r in relation(made, "iteration", **parameters) if r["in_window"]
    )


def test_constant_periods_are_stable() -> None:
    made = MadeTrace()
    train(made, [1000] * 6)
    assert window_of(made) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("slow", [1, 2, 3, 7])
def test_warm_up_is_cut_exactly(slow: int) -> None:
    """The first fast iteration is in, the last slow one is out."""
    made = MadeTrace()
    train(made, [5000] * slow + [1000, 1002, 999, 1001] * 3)
    assert window_of(made) == list(range(slow, slow + 13))


def test_the_last_iteration_has_no_period_and_is_in_the_window() -> None:
    made = MadeTrace()
    train(made, [1000] * 5)
    rows = relation(made, "iteration")
    assert (rows[-1]["period_ns"], rows[-1]["in_window"]) == (None, True)
    assert (rows[-1]["host_ns"], rows[-1]["gpu_ns"]) == (900, 10)


@pytest.mark.parametrize(("periods", "window"), [(3, []), (4, [1, 2, 3, 4])])
def test_fewer_than_three_periods_are_refused(periods: int, window: list[int]) -> None:
    made = MadeTrace()
    train(made, [1000] * periods)  # the first is dropped: it uses a kernel for the first time
    assert window_of(made) == window
    assert {r["dropped"] for r in relation(made, "iteration")} == (
        {"first use of a kernel", None} if window else {"first use of a kernel", "no stable window"}
    )


def test_the_fewest_iterations_and_the_spread_are_the_user_s_to_set() -> None:
    made = MadeTrace()
    train(made, [1000] * 5)
    assert window_of(made, min_iterations=6) == []
    rough = MadeTrace()
    train(rough, [1000, 1000, 1300, 900, 1200, 1000, 1250])
    assert window_of(rough) == []
    assert window_of(rough, max_cv_pct=30.0) == [1, 2, 3, 4, 5, 6, 7]


def test_a_kernel_first_seen_in_the_last_iteration_leaves_no_window() -> None:
    made = MadeTrace()
    train(made, [1000] * 6, new_kernels={6})
    assert window_of(made) == []


@pytest.mark.parametrize(
    ("calls", "grows"),
    [
        (["cudaMalloc"], True),
        (["cuMemAlloc_v2"], True),
        (["cudaMalloc", "cudaFree"], False),
        (["cudaMalloc", "cudaMalloc", "cudaFree"], True),
        (["cudaFree"], False),
        (["cudaMallocHost"], False),
        (["cudaHostAlloc"], False),
        (["cudaMallocAsync"], False),
        (["cudaLaunchKernel"], False),
    ],
)
def test_what_counts_as_allocator_growth(calls: list[str], grows: bool) -> None:
    made = MadeTrace()
    train(made, [1000] * 8)
    for offset, name in enumerate(calls):
        made.add_call(3010 + 2 * offset, 3011 + 2 * offset, name)
    assert window_of(made) == list(range(4 if grows else 1, 9))


def test_processes_have_windows_of_their_own() -> None:
    made = MadeTrace()
    train(made, [1000] * 8, process_id=1)
    train(made, [4000] * 4 + [1000] * 4, process_id=2, thread_id=5)
    train(made, [100, 900, 300, 2000], process_id=None)
    train(made, [2000] * 4, trace_id="u", process_id=1)
    rows = relation(made, "iteration")
    found = {
        key: sorted(
            r["iteration"]
            for r in rows
            if (r["trace_id"], r["process_id"]) == key and r["in_window"]
        )
        for key in {(r["trace_id"], r["process_id"]) for r in rows}
    }
    assert found == {
        ("t", 1): list(range(1, 9)),
        ("t", 2): list(range(4, 9)),
        ("t", None): [],
        ("u", 1): [1, 2, 3, 4],
    }


@pytest.mark.parametrize("iterations", [199, 200, 201, 500])
def test_long_runs_are_thinned_but_cut_where_the_rule_cuts(iterations: int) -> None:
    slow = 37
    made = MadeTrace()
    train(made, [3000] * slow + [1000 + (i * 7919) % 11 for i in range(iterations - slow - 1)])
    [first, *_] = window = window_of(made)
    step = -(-(iterations - 1) // 200)
    assert slow <= first < slow + step
    assert window == list(range(first, iterations))


def test_a_long_drift_is_no_window() -> None:
    made = MadeTrace()
    train(made, [10_000 + i for i in range(300)])
    window = window_of(made)
    assert not window


def test_times_of_an_iteration() -> None:
    made = MadeTrace()
    made.add_range(100, 200, "step 0")
    made.add_range(250, 330, "step 1")
    made.launch(110, 300, 340, "a")
    made.launch(120, 330, 350, "b", stream_id=8)  # overlaps
    made.add_call(130, 131, "cudaMemcpyAsync", correlation_id=900)
    made.add_memcpy(360, 400, correlation_id=900)
    rows = relation(made, "iteration")
    times = [
        {name: row[name] for name in ("host_ns", "gpu_ns", "period_ns", "kernels", "kernel_ns")}
        for row in rows
    ]
    assert times == [
        {"host_ns": 100, "gpu_ns": 100, "period_ns": 150, "kernels": 2, "kernel_ns": 60},
        {"host_ns": 80, "gpu_ns": None, "period_ns": None, "kernels": 0, "kernel_ns": 0},
    ]
    assert (rows[0]["gpu_start_ns"], rows[0]["gpu_end_ns"]) == (300, 400)


def test_iterations_are_numbered_by_time_not_by_their_text() -> None:
    made = MadeTrace()
    for place, label in enumerate([7, 3, 5]):
        made.add_range(100 * place, 100 * place + 50, f"step {label}")
        made.launch(100 * place + 1, 100 * place + 2, 100 * place + 3)
    rows = relation(made, "iteration")
    assert [(r["iteration"], r["label"]) for r in rows] == [
        (0, "step 7"),
        (1, "step 3"),
        (2, "step 5"),
    ]
