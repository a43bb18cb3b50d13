"""iteration: its times, and the steady state against the rule written out in Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples, one_in
from made_trace import MadeTrace, Row, relation

NEW, GROWN, SLOW = "first use of a kernel", "allocator growth", "slow start"


class Work(NamedTuple):
    """What an iteration does beside the kernels that all launch."""

    period: int
    names: frozenset[int] = frozenset()  # kernels of these names are launched
    grid: int = 1  # in blocks of this number
    grows: bool = False  # device memory is allocated and not freed


def train(made: MadeTrace, run: list[Work], **row: Any) -> None:
    """Add iterations that do what ``run`` says, and a last one that nothing follows."""
    start = 0
    for number, work in enumerate([*run, Work(1000)]):
        made.add_range(start, start + 9 * work.period // 10, f"step {number}", **row)
        for place in range(5):  # most kernels, so that all iterations are fully recorded
            at = start + 50 + 3 * place
            made.launch(start + 1 + place // 3, at, at + 2, "always", **row)
        for place, name in enumerate(sorted(work.names)):
            at = start + 70 + 10 * place
            made.launch(start + 3 + place, at, at + 5, f"k{name}", grid_x=work.grid, **row)
        if work.grows:
            made.add_call(start + 40, start + 41, "cudaMalloc", **row)
        start += work.period


def steady(*periods: int) -> list[Work]:
    return [Work(period) for period in periods]


def signs(run: list[Work], *, by_name: bool) -> list[str | None]:
    """Return the sign of warm-up that each iteration shows, or None."""
    launched: set[object] = set()
    found: list[str | None] = []
    for work in run:
        here = {"always"} | {name if by_name else (name, work.grid) for name in work.names}
        found.append(NEW if here - launched else GROWN if work.grows else None)
        launched |= here
    # Faster than nothing in the second half cannot be slow; the slow beginning ends before the
    # first iteration that shows no sign and is not slow.
    later = max(work.period for work in run[(len(run) + 1) // 2 :] or run)
    beginning = 0
    while beginning < len(run) and (
        found[beginning] is not None or 10 * run[beginning].period > 11 * later
    ):
        beginning += 1
    if beginning < len(run):
        slowest = max(work.period for work in run[beginning:])
        for number in range(beginning):
            if found[number] is None and 10 * run[number].period > 11 * slowest:
                found[number] = SLOW
    return found


def mean(run: list[Work]) -> float:
    return sum(work.period for work in run) / len(run)


def leading(found: list[str | None]) -> int:
    """Return how many iterations at the beginning show a sign."""
    return next((number for number, sign in enumerate(found) if sign is None), len(found))


def expected(run: list[Work]) -> tuple[int | None, list[str | None]]:
    """Return how many iterations are warm-up, None for no steady state, and all signs.

    Configurations count, unless more than half of the iterations are then warm-up. Iterations with
    signs stay if they take no longer than the others.
    """
    for by_name in (False, True):
        found = signs(run, by_name=by_name)
        first, rest = run[: leading(found)], run[leading(found) :]
        if len(first) <= len(rest):
            return len(first) if first and mean(first) > 1.1 * mean(rest) else 0, found
    return None, signs(run, by_name=False)


def checked(rows: list[Row], run: list[Work]) -> None:
    """Assert what is said about one process's iterations: ``run`` and the last one."""
    *whole, last = sorted(rows, key=lambda r: int(r["iteration"]))
    assert [r["period_ns"] for r in whole] == [work.period for work in run]
    assert (last["period_ns"], last["is_whole"], last["in_window"]) == (None, False, False)
    assert last["dropped"] == "next start not recorded"
    warm_ups, found = expected(run)
    assert [r["warm_up"] for r in whole] == found
    over = "all iterations" if warm_ups is None else "steady state"
    assert {r["measured_over"] for r in rows} == {over}
    assert [r["in_window"] for r in whole] == [n >= (warm_ups or 0) for n in range(len(run))]
    assert [r["dropped"] for r in whole] == [
        sign if number < (warm_ups or 0) else None for number, sign in enumerate(found)
    ]


work = st.builds(
    Work,
    period=st.one_of(st.integers(980, 1020), st.sampled_from([1000, 1100, 1101, 1500, 5000])),
    names=st.frozensets(st.integers(0, 2), max_size=2),
    grid=st.sampled_from([1, 1, 1, 2, 3]),
    grows=st.sampled_from([False, False, False, True]),
)
plain = st.one_of(st.just(1000), st.sampled_from([1000, 1089, 1090, 1111, 2000, 9000])).map(Work)
runs_of_a_process = st.one_of(
    st.lists(work, min_size=1, max_size=12),
    st.lists(plain, min_size=1, max_size=12),
    # signs at the beginning, then work that is known
    st.builds(
        lambda begin, rest: begin + steady(*rest),
        st.lists(work, max_size=5),
        st.lists(st.integers(900, 1300), min_size=1, max_size=9),
    ),
    # inputs differ in size: nearly each iteration has configurations of its own
    st.builds(
        lambda begin, periods: (
            begin + [Work(p, frozenset({0, 1}), grid) for grid, p in enumerate(periods, 10)]
        ),
        st.lists(work, max_size=4),
        st.lists(st.integers(900, 1300), min_size=2, max_size=9),
    ),
)


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(runs=st.lists(runs_of_a_process, min_size=5, max_size=12))
def test_everything_after_the_warm_up_counts(runs: list[list[Work]]) -> None:
    made = MadeTrace()
    for process, run in enumerate(runs):
        train(made, run, process_id=process)
    rows = relation(made, "iteration")
    for process, run in enumerate(runs):
        checked([r for r in rows if r["process_id"] == process], run)


def window_of(made: MadeTrace, **parameters: Any) -> list[int]:
    return sorted(
        r["iteration"] for r in relation(made, "iteration", **parameters) if r["in_window"]
    )


def over(made: MadeTrace) -> str:
    (found,) = {r["measured_over"] for r in relation(made, "iteration")}
    return str(found)


@pytest.mark.slow
def test_stalls_count_wherever_they_are() -> None:
    made = MadeTrace()
    run = steady(*[9000 if i % 10 == 3 else 1000 for i in range(60)])
    train(made, run)
    assert window_of(made) == list(range(60))
    rows = relation(made, "iteration")
    assert [r["warm_up"] for r in rows[1:]] == [None] * 60


@pytest.mark.slow
def test_a_drift_and_a_step_count() -> None:
    """A time that falls slowly or jumps in the second half is a change, not a warm-up."""
    for periods in ([10_000 - 10 * i for i in range(100)], [1000] * 60 + [3000] * 40):
        made = MadeTrace()
        train(made, steady(*periods))
        assert (over(made), window_of(made)) == ("steady state", list(range(100)))


@pytest.mark.slow
@pytest.mark.parametrize("slow", one_in(5, [1, 2, 3, 7, 12]))
def test_slow_start_is_cut_exactly(slow: int) -> None:
    """The first fast iteration is in, the last slow one is out."""
    made = MadeTrace()
    train(made, steady(*[5000] * slow, *[1000, 1002, 999, 1001] * 3))
    assert window_of(made) == list(range(slow, slow + 12))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slow", "window", "said"),
    [
        (12, range(12, 25), "steady state"),
        (13, range(25), "all iterations"),
        (14, range(1, 25), "steady state"),  # slow in the second half, too: a change, no warm-up
    ],
)
def test_a_slow_start_is_at_most_half(slow: int, window: range, said: str) -> None:
    made = MadeTrace()
    train(made, steady(*[5000] * slow, *[1000] * (25 - slow)))
    assert (window_of(made), over(made)) == (list(window), said)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "slow"), [(1100, False), (1101, True)])
def test_slow_is_more_than_a_tenth_longer(first: int, slow: bool) -> None:
    made = MadeTrace()
    train(made, steady(5000, first, *[1000] * 8))
    assert window_of(made) == list(range(2 if slow else 1, 10))


@pytest.mark.slow
def test_kernels_and_growth_are_signs_only_at_the_beginning() -> None:
    made = MadeTrace()
    run = steady(*[1500] * 4, *[1000] * 16)
    run[1] = Work(1500, grows=True)
    run[2] = Work(1500, frozenset({1}))
    run[3] = Work(1500, frozenset({1}), grid=2)
    run[7] = Work(1000, frozenset({2}))  # a validation, say
    run[9] = Work(1000, grows=True)
    train(made, run)
    rows = relation(made, "iteration")
    assert [r["warm_up"] for r in rows[:10]] == [
        NEW, GROWN, NEW, NEW, None, None, None, NEW, None, GROWN,
    ]  # fmt: skip
    assert window_of(made) == list(range(4, 20))


@pytest.mark.slow
def test_a_kernel_used_before_the_first_iteration_is_not_new() -> None:
    made = MadeTrace()
    train(made, steady(1150, 1000, 1000, 1000, 1100, 1000))  # no slow start, but slower
    assert window_of(made) == [1, 2, 3, 4, 5]
    made.launch(-90, -80, -70, "always")
    assert window_of(made) == [0, 1, 2, 3, 4, 5]


def test_a_kernel_first_seen_in_the_last_iteration_changes_nothing() -> None:
    made = MadeTrace()
    train(made, steady(*[1000] * 6))
    made.launch(6003, 6070, 6080, "at the end")
    assert window_of(made) == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_where_inputs_differ_in_size_names_alone_tell_new_kernels() -> None:
    """Configurations are new in each; memory that grows and slow beginnings are signs as ever."""
    made = MadeTrace()
    run = [Work(1000, frozenset({0}), grid) for grid in range(20)]
    run[1] = run[1]._replace(grows=True)
    run[2] = run[2]._replace(period=3000)
    train(made, run)
    rows = relation(made, "iteration")
    assert [r["dropped"] for r in rows[:4]] == [NEW, GROWN, SLOW, None]
    assert (over(made), window_of(made)) == ("steady state", list(range(3, 20)))


@pytest.mark.slow
def test_signs_in_most_iterations_are_no_steady_state() -> None:
    made = MadeTrace()
    train(made, [Work(1000, frozenset({i})) for i in range(6)] + steady(*[1000] * 5))
    assert (over(made), window_of(made)) == ("all iterations", list(range(11)))
    assert relation(made, "iteration")[-1]["dropped"] == "next start not recorded"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("iterations", "window", "said"),
    one_in(
        2,
        [
            (1, [0], "all iterations"),  # the only one, of unknown period
            (2, [0], "all iterations"),
            (3, [0, 1], "steady state"),
            (4, [0, 1, 2], "steady state"),
        ],
    ),
)
def test_few_iterations(iterations: int, window: list[int], said: str) -> None:
    made = MadeTrace()
    train(made, steady(*[1000] * (iterations - 1)))
    assert (window_of(made), over(made)) == (window, said)


@pytest.mark.slow
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
    train(made, steady(5000, *[1000] * 7))
    for offset, name in enumerate(calls):
        made.add_call(5010 + 2 * offset, 5011 + 2 * offset, name)
    assert window_of(made) == list(range(2 if grows else 1, 8))


@pytest.mark.slow
def test_processes_have_windows_of_their_own() -> None:
    made = MadeTrace()
    train(made, steady(*[1000] * 8), process_id=1)
    train(made, steady(*[4000] * 4, *[1000] * 5), process_id=2, thread_id=5)
    train(made, steady(100), process_id=None)
    train(made, steady(*[2000] * 4), trace_id="u", process_id=1)
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
        ("t", 1): list(range(8)),
        ("t", 2): list(range(4, 9)),
        ("t", None): [0],
        ("u", 1): [0, 1, 2, 3],
    }


# the clock of the periods


def ahead(late: list[int]) -> list[Row]:
    """Return iterations of 100 ns on the host whose kernels begin ``late`` on the GPU."""
    made = MadeTrace()
    for number, start in enumerate(late):
        made.add_range(100 * number, 100 * number + 90, f"step {number}")
        made.launch(100 * number + 1, start, start + 5)
    return relation(made, "iteration")


@pytest.mark.slow
@pytest.mark.parametrize(("step", "clock"), [(105, "host"), (106, "gpu"), (300, "gpu")])
def test_where_the_host_runs_ahead_the_gpu_tells_the_periods(step: int, clock: str) -> None:
    rows = ahead([2 + step * number for number in range(6)])
    assert {r["clock"] for r in rows} == {clock}
    assert [r["period_ns"] for r in rows] == [step if clock == "gpu" else 100] * 5 + [None]


@pytest.mark.slow
def test_an_iteration_without_work_leaves_the_host_s_clock() -> None:
    made = MadeTrace()
    for number in range(6):
        made.add_range(100 * number, 100 * number + 90, f"step {number}")
        if number != 3:
            made.launch(100 * number + 1, 2 + 300 * number, 7 + 300 * number)
    rows = relation(made, "iteration")
    assert {r["clock"] for r in rows} == {"host"}
    assert [r["period_ns"] for r in rows] == [100] * 5 + [None]


@pytest.mark.slow
def test_iterations_beyond_the_recorded_gpu_work_do_not_count() -> None:
    """The profiler records the GPU from iteration 2 to 7: that of 7 may have been cut."""
    made = MadeTrace()
    for number in range(10):
        made.add_range(100 * number, 100 * number + 90, f"step {number}")
        if 2 <= number <= 7:
            made.launch(100 * number + 1, 100 * number + 10, 100 * number + 50)
    rows = relation(made, "iteration")
    assert [r["is_whole"] for r in rows] == [2 <= number <= 6 for number in range(10)]
    cut = "GPU work not fully recorded"
    assert [r["dropped"] for r in rows] == [cut, cut, *[None] * 5, cut, cut, cut]
    assert window_of(made) == [2, 3, 4, 5, 6]


# the last iteration, and pauses


def close(starts: list[int], last_end: int, made: MadeTrace | None = None) -> MadeTrace:
    """Return iterations whose ranges follow each other, with a kernel in each."""
    made = MadeTrace() if made is None else made
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], last_end], strict=True)):
        made.add_range(start, end, f"step {number}")
        made.launch(start + 1, start + 20, start + 60)
    return made


@pytest.mark.parametrize("iterations", [1, 2, 3, 10])
def test_ranges_that_follow_each_other_are_as_many_iterations(iterations: int) -> None:
    rows = relation(close([100 * n for n in range(iterations)], 100 * iterations), "iteration")
    assert [r["period_ns"] for r in rows] == [100] * iterations
    assert [(r["is_whole"], r["in_window"], r["dropped"]) for r in rows] == [
        (True, True, None)
    ] * iterations


@pytest.mark.slow
def test_work_after_the_last_range_belongs_to_its_period() -> None:
    made = close([0, 100, 200], 300)
    made.launch(290, 310, 350)
    rows = relation(made, "iteration")
    assert [(r["period_start_ns"], r["period_end_ns"]) for r in rows] == [
        (0, 100), (100, 200), (200, 350),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_last_iteration_with_fewer_kernels_was_cut() -> None:
    made = MadeTrace()
    for number in range(5):
        made.add_range(100 * number, 100 * number + 100, f"step {number}")
        for kernel in range(4 if number == 4 else 5):
            at = 100 * number + 10 + 10 * kernel
            made.launch(at, at + 2, at + 8)
    rows = relation(made, "iteration")
    assert [r["is_whole"] for r in rows] == [True] * 4 + [False]


@pytest.mark.slow
def test_a_first_iteration_with_less_than_half_of_the_kernels_was_cut() -> None:
    made = MadeTrace()
    for number in range(5):
        made.add_range(100 * number, 100 * number + 100, f"step {number}")
        for kernel in range(2 if number == 0 else 5):
            at = 100 * number + 10 + 10 * kernel
            made.launch(at, at + 2, at + 8)
    rows = relation(made, "iteration")
    assert [r["dropped"] for r in rows] == ["GPU work not fully recorded"] + [None] * 4


@pytest.mark.slow
def test_kernels_left_over_from_before_delay_the_first_period() -> None:
    made = close([1000, 1100, 1200], 1300)
    made.add_kernel(950, 1010)  # launched before the recording
    assert [r["period_start_ns"] for r in relation(made, "iteration")] == [1010, 1100, 1200]


@pytest.mark.slow
def test_an_evaluation_between_iterations_is_no_part_of_one() -> None:
    made = close([0, 100, 200, 300, 400], 500)
    made.launch(510, 520, 900)  # in no iteration
    close([1000, 1100, 1200, 1300, 1400], 1500, made)
    rows = relation(made, "iteration")
    assert [r["period_ns"] for r in rows] == [100] * 10
    assert [r["in_window"] for r in rows] == [True] * 10


@pytest.mark.slow
def test_a_suspended_iteration_is_left_out() -> None:
    second = 1_000_000_000
    starts = [n * second for n in range(12)]
    later = [start + (3600 * second if n > 5 else 0) for n, start in enumerate(starts)]
    rows = relation(close(later, later[-1] + second), "iteration")
    assert [r["dropped"] for r in rows] == [None] * 5 + ["pause"] + [None] * 6


# its times


@pytest.mark.slow
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


@pytest.mark.slow
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
