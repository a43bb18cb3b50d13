"""iteration_statistics: against the definitions written out in Python, and cases worked by hand."""

from __future__ import annotations

import math
import random
import statistics
from itertools import combinations, pairwise
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples, one_in
from made_trace import Row
from tbd_trace import resources

MILLISECOND = 1_000_000
SQL = resources.sql_files("derive")["iteration_statistics"].read_text()


def described(
    *runs: list[int | None], measured_over: str = "steady state", in_window: bool = True
) -> list[Row]:
    """Return the row of the periods of each run; runs are processes, iterations are all counted.

    The relation that it reads is made as a table, for here only times matter.
    """
    rows = [
        (process, number, period, in_window)
        for process, periods in enumerate(runs)
        for number, period in enumerate(periods)
    ]
    schema = {"process_id": pl.Int64, "iteration": pl.Int64, "period_ns": pl.Int64}
    made = pl.DataFrame(rows, schema=schema | {"in_window": pl.Boolean}, orient="row")
    with duckdb.connect() as connection:
        connection.register("made", made)
        connection.execute(
            "CREATE TABLE iteration AS SELECT 't' AS trace_id, *, 7::BIGINT AS host_ns, "
            "NULL::BIGINT AS gpu_ns, 'host' AS clock, 'nvtx range' AS method, 1.0 AS confidence, "
            f"'{measured_over}' AS measured_over FROM made"
        )
        found = connection.sql(f"FROM ({SQL}) WHERE measure = 'period_ns' ORDER BY process_id")
        return found.pl().to_dicts()


def one(periods: list[Any], **options: Any) -> Row:
    [row] = described(periods, **options)
    return row


def milliseconds(*values: float) -> list[int]:
    return [round(value * MILLISECOND) for value in values]


# the definitions


def percentile(values: list[int], share: float) -> float:
    """Return the value at a share of the way through the sorted values, interpolated."""
    ordered, place = sorted(values), share * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def stall_places(values: list[int]) -> list[int]:
    return [place for place, value in enumerate(values) if value > 1.5 * statistics.median(values)]


def spacing(places: list[int]) -> int | None:
    distances = [b - a for a, b in pairwise(places)]
    for distance in set(distances):
        if len(distances) >= 2 and distances.count(distance) >= 0.8 * len(distances):
            return distance if distance > 1 else None
    return None


def runs_of_neighbours(values: list[int]) -> list[tuple[float, float]]:
    """Return mean place and mean value of up to 200 runs of neighbours of one length."""
    length = math.ceil(len(values) / 200)
    runs = [
        list(enumerate(values))[begin : begin + length] for begin in range(0, len(values), length)
    ]
    return [
        (statistics.fmean(place for place, _ in run), statistics.fmean(value for _, value in run))
        for run in runs
    ]


def trend(values: list[int]) -> tuple[float | None, bool]:
    """Return the change from first to last in percent of the mean, and whether that is sure.

    It is not where the slope's rise is the standard deviation but for rounding.
    """
    if len(values) < 10:
        return None, True
    points = runs_of_neighbours(values)
    slope = statistics.median(
        (later - earlier) / (b - a) for (a, earlier), (b, later) in combinations(points, 2)
    )
    rise, deviation = abs(slope) * len(values), statistics.stdev(values)
    if math.isclose(rise, deviation) and rise:
        return None, False
    if rise <= deviation:
        return None, True
    return 100 * slope * (len(values) - 1) / statistics.fmean(values), True


def split(values: list[int]) -> tuple[float | None, bool, bool]:
    """Return up to which time an iteration is short, whether clearly, and whether that is sure.

    Every cut of the sorted values is tried; the best explains most of the variance.
    """
    n, ordered = len(values), sorted(values)
    if n < 8:
        return None, False, True
    mean, all_variance = statistics.fmean(values), statistics.pvariance(values)
    cuts = []
    for below in range(1, n):
        low, high = ordered[:below], ordered[below:]
        between = (
            below * (statistics.fmean(low) - mean) ** 2
            + (n - below) * (statistics.fmean(high) - mean) ** 2
        ) / n
        cuts.append((between, below, statistics.fmean(low), statistics.fmean(high)))
    between, below, low_mean, high_mean = max(cuts, key=lambda cut: (cut[0], -cut[1]))
    if any(math.isclose(between, cut[0], rel_tol=1e-9) for cut in cuts if cut[1] != below):
        return None, False, False  # two cuts are as good
    wanted = max(0.8, 0.75 + 0.6 / math.sqrt(n)) * all_variance
    least = 0.75 * all_variance
    if any(math.isclose(between, limit) for limit in (wanted, least)):
        return None, False, False
    if math.isclose(high_mean, 1.5 * low_mean):
        return None, False, False
    is_split = min(below, n - below) >= n / 4 and high_mean > 1.5 * low_mean and between > least
    return (float(ordered[below - 1]) if is_split else None), between > wanted, True


def groups(values: list[int]) -> tuple[tuple[float, float, bool] | None, bool]:
    """Return the medians of both groups and whether they follow in turn, and whether it is sure."""
    limit, is_clear, sure = split(values)
    if limit is None:
        return None, sure
    is_long = [value > limit for value in values]
    turns = sum(a != b for a, b in pairwise(is_long))
    if not is_clear and (len(values) < 16 or turns < 0.9 * (len(values) - 1)):
        return None, sure
    medians = [
        statistics.median(v for v, long in zip(values, is_long, strict=True) if long == wanted)
        for wanted in (False, True)
    ]
    return (medians[0], medians[1], turns >= 0.9 * (len(values) - 1)), sure


def close(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)


def checked(row: Row, values: list[int]) -> None:
    assert (row["n"], row["total_ns"]) == (len(values), sum(values))
    assert row["mean_ns"] == close(sum(values) / len(values))
    assert row["median_ns"] == statistics.median(values)
    assert row["p5_ns"] == close(percentile(values, 0.05))
    assert row["p95_ns"] == close(percentile(values, 0.95))
    deviation = statistics.stdev(values) if len(values) > 1 else None
    assert row["stddev_ns"] == close(deviation)
    mean = statistics.fmean(values)
    assert row["cv_pct"] == close(deviation and 100 * deviation / mean)
    stalls = stall_places(values)
    assert row["stalls"] == len(stalls)
    assert row["stall_share_pct"] == close(100 * sum(values[i] for i in stalls) / sum(values))
    assert row["stall_spacing"] == spacing(stalls)
    rest = [value for place, value in enumerate(values) if place not in set(stalls)]
    assert row["typical_ns"] == statistics.median(rest)
    change, sure = trend(values)
    if sure:
        assert row["trend_pct"] == close(change)
    two, sure = groups(values)
    if sure:
        assert (row["low_ns"], row["high_ns"], row["in_turn"]) == (two or (None, None, None))


def repeated(pattern: list[int], times: int, noise: list[int]) -> list[int]:
    return [value + noise[i % len(noise)] for i, value in enumerate(pattern * times)]


times = st.one_of(
    st.lists(st.integers(1, 3000), min_size=1, max_size=40),
    st.lists(st.sampled_from([1000, 1010, 1500, 1501, 4000]), min_size=1, max_size=40),
    # patterns: stalls, two groups, with noise
    st.builds(
        repeated,
        st.lists(st.sampled_from([1000, 1000, 3000]), min_size=1, max_size=6),
        st.integers(2, 12),
        st.lists(st.integers(0, 60), min_size=1, max_size=7),
    ),
    # a drift
    st.builds(
        lambda drift, noise: [20_000 + drift * i + n for i, n in enumerate(noise)],
        st.integers(-99, 99),
        st.lists(st.integers(0, 900), min_size=8, max_size=40),
    ),
)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(runs=st.lists(times, min_size=1, max_size=8))
def test_all_statistics_are_those_of_their_definitions(runs: list[list[int]]) -> None:
    rows = described(*runs)
    assert [row["process_id"] for row in rows] == list(range(len(runs)))
    for row, values in zip(rows, runs, strict=True):
        checked(row, values)


@pytest.mark.parametrize("n", one_in(6, [199, 200, 201, 400, 401, 1003]))
def test_long_runs_are_described_by_the_same_definitions(n: int) -> None:
    chance = random.Random(n)
    drifting = [100_000 + 90 * i + chance.randrange(20_000) for i in range(n)]
    stalling = [1000 + chance.randrange(50) + 3000 * (i % 7 == 0) for i in range(n)]
    for row, values in zip(described(drifting, stalling), (drifting, stalling), strict=True):
        checked(row, values)
    assert described(drifting)[0]["trend_pct"] is not None


def test_of_long_runs_the_means_of_neighbours_tell_the_trend() -> None:
    """The slope of the means is that of all pairs, so nearly that no reader would see it."""
    values = [100_000 + 100 * i + 977 * (i * 7919 % 13) for i in range(450)]
    exact = statistics.median(
        (b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2)
    )
    row = one(values)
    assert row["trend_pct"] == pytest.approx(100 * exact * 449 / statistics.fmean(values), rel=0.02)


# cases worked by hand


def test_a_stall_every_fifth() -> None:
    """200 of 1000 take 50 ms, the others 10 ms: 18 s in all, 10 s of them in stalls."""
    row = one(milliseconds(*[10, 10, 10, 10, 50] * 200))
    assert (row["n"], row["total_ns"], row["mean_ns"]) == (1000, 18_000 * MILLISECOND, 18e6)
    assert (row["stalls"], row["stall_spacing"], row["typical_ns"]) == (200, 5, 10e6)
    assert row["stall_share_pct"] == pytest.approx(100 * 10 / 18)
    assert row["trend_pct"] is row["low_ns"] is None
    assert row["stability"] == (
        "200 of 1000 iterations stall and take 55.6 % of the time, every 5 iterations"
    )


@pytest.mark.parametrize("offset", [0, 3, 7])
@pytest.mark.parametrize("n", [40, 1000])
def test_a_stall_every_eighth(n: int, offset: int) -> None:
    row = one(milliseconds(*[80 if i % 8 == offset else 20 + i % 3 for i in range(n)]))
    assert row["stall_spacing"] == 8
    assert row["stability"].endswith("every 8 iterations")


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([5, 9], None),  # one distance is no spacing
        ([5, 9, 13], 4),
        ([5, 9, 13, 17, 21, 26], 4),  # four of five
        ([5, 9, 13, 17, 22], None),  # three of four
    ],
)
def test_how_regular_a_spacing_must_be(places: list[int], expected: int | None) -> None:
    row = one([5000 if i in places else 1000 for i in range(30)])
    assert (row["stalls"], row["stall_spacing"]) == (len(places), expected)


@pytest.mark.parametrize(("longest", "stalls"), [(1500, 0), (1501, 1)])
def test_a_stall_is_longer_than_half_more_than_the_median(longest: int, stalls: int) -> None:
    assert one([1000] * 9 + [longest])["stalls"] == stalls


def test_two_times_in_turn() -> None:
    row = one(milliseconds(*[90, 1360] * 15))
    assert (row["low_ns"], row["high_ns"], row["in_turn"]) == (90e6, 1360e6, True)
    # half are longer than 1.5 times the median of 725 ms, and take 1360 of each 1450 ms
    assert (row["stalls"], row["stall_spacing"]) == (15, 2)
    assert row["stall_share_pct"] == pytest.approx(100 * 1360 / 1450)
    assert row["stability"] == "bimodal: 90 ms and 1360 ms in turn"


@pytest.mark.parametrize("n", [150, 300])
def test_two_times_in_turn_at_any_length(n: int) -> None:
    row = one(milliseconds(*[10, 30] * (n // 2)))
    assert (row["low_ns"], row["high_ns"], row["in_turn"]) == (10e6, 30e6, True)
    assert row["stability"] == "bimodal: 10 ms and 30 ms in turn"
    assert row["trend_pct"] is None


def test_two_times_one_after_the_other_are_not_in_turn() -> None:
    row = one(milliseconds(*[10] * 40, *[30] * 40))
    assert (row["low_ns"], row["high_ns"], row["in_turn"]) == (10e6, 30e6, False)
    assert row["stability"].startswith("bimodal: 10 ms and 30 ms;")


@pytest.mark.parametrize(("rare", "is_group"), [(4, False), (5, True)])
def test_a_group_is_a_quarter_at_least(rare: int, is_group: bool) -> None:
    assert (one([1000] * (20 - rare) + [3000] * rare)["low_ns"] is not None) is is_group


@pytest.mark.slow
@pytest.mark.parametrize("n", one_in(3, [8, 12, 20, 40, 100, 400]))
def test_two_groups_are_no_chance(n: int) -> None:
    """Of 100 runs of evenly or normally spread times, two at most look like two groups."""
    chance = random.Random(n)
    evenly = [[chance.randrange(1_000_000, 9_000_000) for _ in range(n)] for _ in range(100)]
    normally = [
        [round(max(1, chance.gauss(1_000_000, 200_000))) for _ in range(n)] for _ in range(100)
    ]
    for runs in (evenly, normally):
        rows = described(*runs)
        assert sum(row["low_ns"] is not None for row in rows) <= 2
        for row in rows:
            assert (row["low_ns"] is None) == ("bimodal" not in row["stability"])
    noisy = [
        [round(chance.gauss(1, 0.03) * t) for t in [10_000, 30_000] * (n // 2)] for _ in range(20)
    ]
    assert all(row["in_turn"] for row in described(*noisy))


def test_a_drift_is_said() -> None:
    """From 1000 to 1099 in 100 iterations: 99 of a mean of 1049.5."""
    row = one([1000 + i for i in range(100)])
    assert row["trend_pct"] == pytest.approx(100 * 99 / 1049.5)
    assert row["stability"] == "trend: +9.4 % from first to last"
    assert one([1099 - i for i in range(100)])["stability"] == "trend: -9.4 % from first to last"
    assert one([1000 + i for i in range(9)])["trend_pct"] is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1000] * 10, "steady"),
        ([1000, 1020] * 5, "steady"),
        ([1000, 1200] * 5, "varies: coefficient of variation 9.6 %"),
        ([1000], "too few iterations to tell: 1"),
        ([1000, 5000], "too few iterations to tell: 2"),
        ([1000] * 3, "3 iterations, at least 10 are wanted"),
        ([1000] * 9, "9 iterations, at least 10 are wanted"),
        ([1000, 1000, 1000, 9000], "4 iterations, at least 10 are wanted; "
         "1 of 4 iterations stall and take 75.0 % of the time"),
    ],
)  # fmt: skip
def test_what_a_reader_of_the_mean_must_know(values: list[int], said: str) -> None:
    assert one(values)["stability"] == said


def test_that_there_is_no_steady_state_is_said() -> None:
    said = "no steady state: more than half of the iterations show signs of warm-up"
    assert one([1000] * 10, measured_over="all iterations")["stability"] == said


def test_an_unknown_time_is_none() -> None:
    row = one([None])
    assert (row["n"], row["total_ns"], row["mean_ns"], row["median_ns"]) == (0, None, None, None)
    assert (row["stalls"], row["stability"]) == (0, "not known")
    row = one([1000, None, 1000, 1000])
    assert (row["n"], row["mean_ns"]) == (3, 1000)


def test_iterations_that_do_not_count_have_no_statistics() -> None:
    assert described([1000] * 10, in_window=False) == []
