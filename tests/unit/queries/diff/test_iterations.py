"""diff: iterations of two runs, against the test written out in Python and counted by hand."""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product
from random import Random
from statistics import fmean, median

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_pair import add_iterations, answers
from made_trace import MadeTrace, Row
from tbd_trace.analysis.diff.comparison import question


def headline(a: list[int], b: list[int], min_change_pct: float = 1.0) -> Row:
    """Return the row of the periods of two runs, of which all count."""
    (row,) = of_processes([a], [b], min_change_pct)
    return row


def of_processes(a: list[list[int]], b: list[list[int]], min_change_pct: float = 1.0) -> list[Row]:
    """Return the rows of the periods of two runs by process, first the one of all processes.

    The query's relations are made as tables: deriving them takes a second.
    """
    with duckdb.connect() as connection:
        connection.execute(f"SET VARIABLE min_change_pct = {min_change_pct}")
        connection.execute("CREATE TABLE diff_side AS VALUES ('a', 'A'), ('b', 'B')")
        connection.execute("ALTER TABLE diff_side RENAME col0 TO trace_id")
        connection.execute("ALTER TABLE diff_side RENAME col1 TO side")
        connection.execute(
            "CREATE TABLE iteration (trace_id VARCHAR, process_id BIGINT, iteration BIGINT, "
            "host_ns BIGINT, gpu_ns BIGINT, period_ns BIGINT, in_window BOOLEAN)"
        )
        connection.execute("CREATE TABLE process (trace_id VARCHAR, process_id BIGINT, pid BIGINT)")
        connection.execute(
            "CREATE TABLE trace AS SELECT unnest(['a', 'b']) AS trace_id, 't' AS name"
        )
        rows = [
            (trace, process, number, period)
            for trace, processes in (("a", a), ("b", b))
            for process, periods in enumerate(processes)
            for number, period in enumerate(periods)
        ]
        columns = ["trace_id", "process_id", "iteration", "period_ns"]
        connection.register("made", pl.DataFrame(rows, schema=columns, orient="row"))
        connection.execute(
            "INSERT INTO iteration "
            "SELECT trace_id, process_id, iteration, 9, 9, period_ns, true FROM made"
        )
        found = connection.sql(question("iterations").sql).pl().to_dicts()
    periods, *others = (found[start::3] for start in range(3))
    assert [{row["measure"] for row in rows} for rows in (periods, *others)] == [
        {"period_ns"},
        {"host_ns"},
        {"gpu_ns"},
    ]
    return periods


def logarithms(values: list[int]) -> list[float]:
    centre = fmean(map(math.log, values))
    return [round(math.log(value) - centre, 12) for value in values]


def expected(a: list[int], b: list[int]) -> tuple[float, float | None, float | None]:
    """Return change and interval in percent: every ratio of an iteration of B to one of A."""
    ratios = sorted(y / x for x, y in product(a, b))
    both = [logarithms(a), logarithms(b)]
    product_sum = sum(x * y for side in both for x, y in pairwise(side))
    square_sum = sum(x * x for side in both for x in side)
    rho = min(0.9, max(0.0, product_sum / square_sum)) if square_sum else 0.0

    def variance_of_mean(n: int) -> float:
        """Of n values of variance 1 with autocorrelation rho**distance: the sum, term by term."""
        return sum(rho ** abs(i - j) for i in range(n) for j in range(n)) / n**2

    n, m = len(a), len(b)
    wider = (variance_of_mean(n) + variance_of_mean(m)) / (1 / n + 1 / m)
    deviation = math.sqrt(wider * n * m * (n + m + 1) / 12)
    place = math.floor(n * m / 2 - 1.959964 * deviation)
    if place < 1 and min(n, m) >= 3:
        place = 1
    ends = (ratios[place - 1], ratios[-place]) if place >= 1 else (None, None)
    low, high = (None if end is None else 100 * (end - 1) for end in ends)
    return 100 * (math.exp(median(map(math.log, ratios))) - 1), low, high


PERIODS = st.lists(st.integers(500, 2000), min_size=2, max_size=14)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(PERIODS, PERIODS)
def test_change_and_interval_are_the_tests(a: list[int], b: list[int]) -> None:
    row = headline(a, b)
    change, low, high = expected(a, b)
    assert (row["n_a"], row["n_b"]) == (len(a), len(b))
    assert row["median_a_ns"] == median(a)
    assert row["mean_b_ns"] - row["mean_a_ns"] == row["change_ns"]
    assert row["change_pct"] == pytest.approx(change, abs=1e-9)
    assert row["low_pct"] == (None if low is None else pytest.approx(low, abs=1e-9))
    assert row["high_pct"] == (None if high is None else pytest.approx(high, abs=1e-9))
    assert (row["reason"] is None) == (low is not None) == (row["verdict"] is not None)


def exact_place(n: int, m: int) -> int:
    """Return the largest k so that the k-th smallest difference bounds 95 %: 0 if none does.

    Without a difference every choice of n places among n + m is as likely: their Mann-Whitney
    statistics are counted one by one.
    """
    statistics = [sum(places) - n * (n - 1) // 2 for places in combinations(range(n + m), n)]
    k = 0
    while sum(value <= k for value in statistics) <= 0.025 * len(statistics):
        k += 1
    return k


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 4), (3, 5), (5, 6), (7, 7), (4, 9), (8, 8)])
def test_interval_is_that_of_the_exact_test_or_one_step_wider(n: int, m: int) -> None:
    # up and down in turn, so that no iteration is like the one before it
    a = [10_000 + 7 * (i if i % 2 else -i) for i in range(n)]
    b = [10_000 + 11 * (-j if j % 2 else j) + 3 for j in range(m)]
    row = headline(a, b)
    assert row["autocorrelation"] == 0
    exact = exact_place(n, m)
    ratios = sorted(100 * (y / x - 1) for x, y in product(a, b))
    # Where no interval of all ratios has 95 %, the one there is states its confidence.
    allowed = [ratios[max(k, 1) - 1] for k in (exact, exact - 1)]
    assert any(row["low_pct"] == pytest.approx(end, abs=1e-9) for end in allowed)
    ways = math.comb(n + m, n)
    all_ratios = pytest.approx(100 * (1 - 2 / ways))
    assert row["confidence_pct"] == all_ratios or (exact and row["confidence_pct"] == 95)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(3, 3), (3, 4), (3, 5)])
def test_equal_runs_of_few_iterations_show_no_change_in_95_of_100(n: int, m: int) -> None:
    """400 pairs of runs whose iterations vary by 3 %, and whose means by 1 %."""
    random = Random(n)

    def runs(length: int) -> list[list[int]]:
        means = [random.gauss(1e6, 1e4) for _ in range(400)]
        return [[round(random.gauss(mean, 3e4)) for _ in range(length)] for mean in means]

    _, *pairs = of_processes(runs(n), runs(m))
    assert len(pairs) == 400
    assert sum(row["verdict"] != "no change beyond noise" for row in pairs) <= 20


STEADY = [1000, 1004, 998]


@pytest.mark.parametrize(
    ("b", "verdict"),
    [
        ([1100, 1105, 1097], "slower"),
        ([900, 905, 897], "faster"),
        ([1010, 1014, 1008], "no change beyond noise"),  # below twice the range of the iterations
        ([1003, 1001, 1002], "no change beyond noise"),
        ([1100, 1105], None),
    ],
)
def test_three_iterations_of_each_side_are_compared(b: list[int], verdict: str | None) -> None:
    assert headline(STEADY, b)["verdict"] == verdict


@pytest.mark.slow
def test_verdicts() -> None:
    steady = [1000, 1010, 990, 1005, 995, 1002, 998, 1001]
    slower = [1100, 1111, 1089, 1106, 1094, 1102, 1098, 1101]
    row = headline(steady, slower)
    assert row["verdict"] == "slower"
    assert row["change_pct"] == pytest.approx(10, abs=0.1)
    assert row["change_pct"] > row["noise_pct"]
    assert row["noise_pct"] == pytest.approx(max(1.0, row["change_pct"] - row["low_pct"]))
    assert headline(slower, steady)["verdict"] == "faster"
    assert headline(steady, slower, min_change_pct=15.0)["verdict"] == "no change beyond noise"
    noisy = [700, 1500, 800, 1400, 900, 1300, 750, 1450]
    row = headline(steady, noisy)
    assert row["verdict"] == "no change beyond noise"
    assert row["low_pct"] < 0 < row["high_pct"]


def test_small_changes_do_not_count_however_sure() -> None:
    a = [100_000, 100_010, 99_990, 100_005, 99_995, 100_002, 99_998]
    b = [value + 500 for value in a]  # 0.5 %, 25 times the spread
    row = headline(a, b)
    assert row["low_pct"] > 0
    assert row["verdict"] == "no change beyond noise"
    assert row["noise_pct"] == 1.0
    assert headline(a, b, min_change_pct=0.1)["verdict"] == "slower"


def test_iterations_that_are_like_those_before_tell_less() -> None:
    a = [1000, 1003, 1001, 1004, 1002, 1005, 1000, 1004, 1001, 1003]
    turns = [1040, 1090, 1041, 1091, 1042, 1092, 1043, 1093, 1044, 1094, 1045, 1095]
    threes = sorted(turns[::4] + turns[1::4]) + sorted(turns[2::4] + turns[3::4])
    alike, like_before = headline(a, turns), headline(a, threes)
    assert alike["change_pct"] == like_before["change_pct"]
    assert alike["autocorrelation"] == 0 < like_before["autocorrelation"]
    assert like_before["low_pct"] < alike["low_pct"]
    assert like_before["high_pct"] > alike["high_pct"]


def test_too_few_iterations() -> None:
    row = headline([1000, 1001], [2000, 2001])
    assert row["verdict"] is None
    assert row["reason"] == "too few iterations to tell a change from noise"
    assert row["change_pct"] == pytest.approx(100, abs=0.2)


def test_a_process_of_one_iteration() -> None:
    """Together both processes have the first iteration only, with the means 1250 and 2500."""
    several = [1000, 1004, 1001, 1003, 1002, 1000]
    rows = of_processes([several, [1500]], [[2 * value for value in several], [3000]])
    counts = [(row["rank"], row["n_a"], row["n_b"]) for row in rows]
    assert counts == [(None, 1, 1), (0, 6, 6), (1, 1, 1)]
    assert [row["mean_a_ns"] for row in rows[::2]] == [1250, 1500]
    assert [row["mean_b_ns"] for row in rows[::2]] == [2500, 3000]
    assert rows[1]["verdict"] == "slower"
    for row in rows[::2]:
        assert row["change_pct"] == pytest.approx(100)
        assert (row["low_pct"], row["high_pct"], row["verdict"]) == (None, None, None)
        assert row["autocorrelation"] == 0
        assert row["reason"] == "too few iterations to tell a change from noise"


@pytest.mark.slow
def test_a_side_without_iterations() -> None:
    made = MadeTrace()
    add_iterations(made, "a", [1000] * 5)
    made.launch(1, 50, 60, "multiply", trace_id="b")
    rows = answers(made)["iterations"]
    assert {row["reason"] for row in rows} == {"only one side has such iterations"}
    assert {row["verdict"] for row in rows} == {None}


def test_long_runs_are_thinned() -> None:
    a = [1000 + i % 7 for i in range(1203)]
    row = headline(a, [2 * value for value in a])
    assert (row["n_a"], row["n_b"]) == (1203, 1203)
    assert row["change_pct"] == pytest.approx(100, abs=0.2)
    assert row["verdict"] == "slower"


@pytest.mark.slow
def test_processes_are_matched_by_rank_and_taken_together() -> None:
    made = MadeTrace()
    for trace, factor in (("a", 1), ("b", 2)):
        for process, pid in ((1, 30), (2, 20)):  # the second process has the lower process id
            made.add("process", trace_id=trace, process_id=process, pid=pid + factor)
            # the first is warm-up: its kernel is seen for the first time, and it is slow
            periods = [5000, *(factor * (1000 + 100 * process + i) for i in range(6))]
            add_iterations(made, trace, periods, process_id=process, thread_id=process)
    rows = [row for row in answers(made)["iterations"] if row["measure"] == "period_ns"]
    assert [(row["rank"], row["pid_a"], row["pid_b"]) for row in rows] == [
        (None, None, None),
        (0, 21, 22),
        (1, 31, 32),
    ]
    # Of all together: of each iteration the mean of 1100 + i and 1200 + i. The range after them is
    # an iteration, too, of 990 in each process: of the seven, the third of the six is the median.
    assert [row["median_a_ns"] for row in rows] == [1152, 1202, 1102]
    assert [row["median_b_ns"] for row in rows] == [2304, 2404, 2204]
    assert {(row["n_a"], row["n_b"]) for row in rows} == {(7, 7)}


@pytest.mark.slow
def test_the_steady_state_counts_alone() -> None:
    made = MadeTrace()
    add_iterations(made, "a", [5000, 1000, 1001, 1000, 1001, 1000])
    add_iterations(made, "b", [1000, 1001, 1000, 1001, 1000, 1001])
    (row, *_) = answers(made)["iterations"]
    # In both, the kernel of the first iteration is seen for the first time. In A it is slow, too,
    # and therefore warm-up. The range after the last one, of 990, is an iteration itself.
    assert (row["n_a"], row["n_b"]) == (6, 7)
    assert (row["median_a_ns"], row["median_b_ns"]) == (1000, 1000)


@pytest.mark.slow
def test_a_trace_with_itself() -> None:
    made = MadeTrace()
    add_iterations(made, "a", [1000, 1200, 900, 1100, 1000, 950, 1050])
    for row in answers(made, b=("a",))["iterations"]:
        assert (row["change_ns"], row["change_pct"]) == (0, 0)
        assert row["low_pct"] <= 0 <= row["high_pct"]
        assert row["verdict"] == "no change beyond noise"
