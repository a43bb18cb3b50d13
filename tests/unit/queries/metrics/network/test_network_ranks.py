"""Ranks of a job: clocks, matched collectives, stragglers and job_summary, on made traces."""

from __future__ import annotations

from typing import Any

import pytest

from corpus import reference_rows
from made_ranks import MS, ONE_HOST, Call, job, late, shifted
from made_trace import metric, relation

HOUR = 3600 * 10**9


def column(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_traces_of_unknown_rank_are_a_problem_of_their_job() -> None:
    made = job({0: [(0, 10)], 1: [(0, 10)]}, world=2)
    made.add_trace("lost", name="run/lost.json")
    made.add("job_rank", trace_id="lost", job="run", rank=None, world_size=2)
    made.add_trace("alone", name="alone.json")
    made.add("job_rank", trace_id="alone", job=None, rank=None)
    (row,) = relation(made, "job_ranks")
    assert (row["job"], row["present"], row["problems"]) == (
        "run", "0, 1", "rank unknown: run/lost.json",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["sync3", "short2"])
def test_offset_and_drift_of_the_reference_sets(name: str) -> None:
    rows = reference_rows(f"network/clock/{name}.csv")
    calls: dict[int, list[Call]] = {}
    for row in rows:
        calls.setdefault(int(row["rank"]), []).append((int(row["start_ns"]), int(row["end_ns"])))
    made = job(calls)
    for rank in calls:
        kinds = [row["collective"] for row in rows if int(row["rank"]) == rank]
        own = [row for row in made.rows["collective_record"] if row["trace_id"] == f"t{rank}"]
        for record, kind in zip(own, kinds, strict=True):
            record["kind"] = kind
    estimates = relation(made, "clock_estimate")
    found = {row["rank"]: row for row in estimates if row["method"] == "collective ends"}
    table = reference_rows(f"network/clock/{name}_truth.csv")
    truth = [row for row in table if row["rank"] != "0"]
    assert len(truth) == len(found)
    for row in truth:
        one = found[int(row["rank"])]
        assert one["collectives"] == int(row["n"])
        if int(row["n"]) < 30:  # a second is too short for a drift
            assert one["drift_ppm"] is None
            assert one["offset_ns"] == pytest.approx(int(row["true_offset_ns"]), abs=100_000)
            continue
        # The truth is the offset at time 0.
        at_zero = one["offset_ns"] - one["drift_ppm"] * one["reference_ns"] / 1e6
        assert at_zero == pytest.approx(int(row["true_offset_ns"]), abs=10_000)
        assert one["drift_ppm"] == pytest.approx(float(row["true_drift_ppm"]), abs=0.1)


def test_the_uncertainty_of_ends_is_their_distance_from_the_line() -> None:
    """Rank 1 is a second ahead, and ends every other collective 40 ms later."""
    calls = {
        rank: [
            (200 * MS * k, 200 * MS * k + 100 * MS + rank * (1000 + 40 * (k % 2)) * MS)
            for k in range(10)
        ]
        for rank in (0, 1)
    }
    (row,) = [r for r in relation(job(calls), "clock_estimate") if r["method"] == "collective ends"]
    assert (row["offset_ns"], row["uncertainty_ns"]) == (1020 * MS, 20 * MS)


@pytest.mark.slow
def test_the_straggler_is_named() -> None:
    made = job(late(2, 4, 5), **ONE_HOST)
    rows = metric(made, "straggler")
    names = ("rank", "times_last", "share_last_pct", "is_straggler", "verdict")
    assert column(rows, *names) == [
        (2, 5, 100.0, True, "same rank"),
        (0, 0, 0.0, False, "same rank"),
        (1, 0, 0.0, False, "same rank"),
        (3, 0, 0.0, False, "same rank"),
    ]
    # Three ranks wait 40 ms, five times.
    assert column(rows, "caused_wait_ns", "suffered_wait_ns") == [
        (600 * MS, 0), (0, 200 * MS), (0, 200 * MS), (0, 200 * MS),
    ]  # fmt: skip
    assert rows[0]["mean_lateness_ns"] == 40 * MS
    # Without iterations, an iteration is the 200 ms from one collective to the next.
    assert rows[0]["lateness_pct"] == pytest.approx(20.0)


@pytest.mark.slow
def test_changing_ranks_are_rotating() -> None:
    calls: dict[int, list[Call]] = {0: [], 1: [], 2: []}
    for k in range(6):
        for rank, own in calls.items():
            delay = 40 * MS if rank == k % 3 else 0
            own.append((200 * MS * k + delay, 200 * MS * k + 100 * MS))
    rows = metric(job(calls, **ONE_HOST), "straggler")
    assert column(rows, "rank", "times_last", "verdict") == [
        (0, 2, "rotating"), (1, 2, "rotating"), (2, 2, "rotating"),
    ]  # fmt: skip


@pytest.mark.slow
def test_lateness_of_little_consequence_is_rotating() -> None:
    # Always last, by 2 of 200 ms.
    rows = metric(job(late(1, 2, 8, delay=2 * MS), **ONE_HOST), "straggler")
    assert column(rows, "rank", "times_last", "verdict")[0] == (1, 8, "rotating")
    rows = metric(job(late(1, 2, 8, delay=2 * MS), **ONE_HOST), "straggler", min_lateness_pct=0.5)
    assert rows[0]["verdict"] == "same rank"


@pytest.mark.slow
def test_no_verdict_within_the_uncertainty_of_the_clocks() -> None:
    # Without UTC only the ends align the clocks of hosts, to 10 ms.
    rows = metric(job(late(1, 2, 8, delay=9 * MS)), "straggler", min_lateness_pct=0)
    names = ("times_last", "share_last_pct", "verdict", "uncertainty_ns")
    assert column(rows, *names) == [(0, None, "not evaluable", 10 * MS)] * 2
    assert "0 of 8 collectives" in rows[0]["reason"]
    # 40 ms are above them.
    rows = metric(job(late(1, 2, 8)), "straggler")
    assert column(rows, "rank", "verdict", "clock")[0] == (1, "same rank", "collective ends")


@pytest.mark.slow
def test_ends_overrule_a_clock_that_is_hours_off() -> None:
    calls = late(1, 3, 6)
    calls[1] = shifted(calls[1], 5 * HOUR)
    calls[2] = shifted(calls[2], -7 * HOUR)
    made = job(calls, **ONE_HOST)
    estimates = relation(made, "clock_estimate")
    used = {row["rank"]: (row["method"], row["offset_ns"]) for row in estimates if row["is_used"]}
    assert used == {1: ("collective ends", 5 * HOUR), 2: ("collective ends", -7 * HOUR)}
    refused = [row["contradiction"] for row in estimates if not row["is_used"]]
    assert refused == ["collectives end 18000.000 s apart by this clock",
                       "collectives end 25200.000 s apart by this clock"]  # fmt: skip
    assert column(metric(made, "straggler"), "rank", "verdict")[0] == (1, "same rank")


@pytest.mark.slow
def test_every_estimate_is_listed_and_the_best_used() -> None:
    calls = late(1, 2, 4)
    calls[1] = shifted(calls[1], 250_000)
    base = {0: 10**18, 1: 10**18 - 250_000}
    rows = relation(job(calls, utc=base), "clock_estimate")
    names = ("method", "offset_ns", "uncertainty_ns", "is_used")
    assert sorted(column(rows, *names)) == [
        ("UTC", 250_000, MS, True), ("collective ends", 250_000, 10 * MS, False),
    ]  # fmt: skip
    rows = relation(job(calls, utc=base, hosts={0: "a", 1: "a"}), "clock_estimate")
    assert ("UTC of one host", 250_000, 100_000, True) in column(rows, *names)
    rows = relation(job(calls, utc=base), "clock_estimate", utc_uncertainty_ms=50.0)
    assert ("collective ends", 250_000, 10 * MS, True) in column(rows, *names)


def test_a_rank_that_began_two_collectives_later() -> None:
    calls = late(1, 2, 8)
    calls[1] = calls[1][2:]
    rows = relation(job(calls, **ONE_HOST), "matched_collective")
    by_number: dict[int, list[tuple[Any, ...]]] = {}
    for row in sorted(rows, key=lambda row: (row["sequence"], row["rank"])):
        by_number.setdefault(row["sequence"], []).append((row["rank"], row["mismatch"]))
    assert by_number == {
        **{k: [(0, "not on rank 1")] for k in (0, 1)},
        **{k: [(0, None), (1, None)] for k in range(2, 8)},
    }
    assert {row["start_skew_ns"] for row in rows} == {None, 40 * MS}


@pytest.mark.slow
def test_collectives_on_hosts_wait_on_no_gpu() -> None:
    made = job(late(1, 2, 8), **ONE_HOST)
    assert relation(made, "matched_collective")
    assert relation(made, "rank_wait") == []


def test_recorded_numbers_win() -> None:
    calls = late(1, 2, 4)
    calls[1] = calls[1][1:]
    made = job(calls)
    for row in made.rows["collective_record"]:
        row["sequence"] = row["start_ns"] // (200 * MS) + 10
    rows = relation(made, "matched_collective")
    assert {row["sequence"]: row["mismatch"] for row in rows} == {
        10: "not on rank 1", 11: None, 12: None, 13: None,
    }  # fmt: skip


@pytest.mark.slow
def test_another_size_is_a_row_with_the_reason() -> None:
    made = job(late(1, 3, 4), sizes={(2, 1): 7}, **ONE_HOST)
    rows = metric(made, "rank_skew")
    assert len(rows) == 12
    reason = "rank 2 has 28 bytes against 4000"
    found = [(row["sequence"], row["mismatch"], row["wait_ns"]) for row in rows if row["rank"] == 0]
    assert found == [(0, None, 40 * MS), (1, reason, None), (2, None, 40 * MS), (3, None, 40 * MS)]
    [summary] = metric(made, "job_summary")
    assert (summary["collectives"], summary["collectives_matched"]) == (4, 3)
    assert reason in summary["problems"]


def test_parts_of_an_all_to_all_may_differ() -> None:
    made = job(late(1, 2, 4), sizes={(1, 1): 7}, kind="all_to_all", **ONE_HOST)
    assert {row["mismatch"] for row in relation(made, "matched_collective")} == {None}


@pytest.mark.slow
def test_broadcasts_are_matched_but_judge_nobody() -> None:
    made = job(late(1, 2, 8), kind="broadcast", **ONE_HOST)
    assert len(metric(made, "rank_skew")) == 16
    rows = metric(made, "straggler")
    assert column(rows, "collectives", "verdict") == [(0, "not evaluable")] * 2
    assert rows[0]["reason"] == "no synchronizing collective is matched"
    assert [row["method"] for row in relation(made, "clock_estimate")] == ["UTC of one host"]


@pytest.mark.slow
def test_a_missing_rank_is_named() -> None:
    calls = late(3, 4, 5)
    del calls[2]
    made = job(calls, world=4, **ONE_HOST)
    [summary] = metric(made, "job_summary")
    names = ("world_size", "ranks_present", "present", "missing_ranks", "complete")
    assert tuple(summary[name] for name in names) == (4, 3, "0, 1, 3", "2", False)
    rows = metric(made, "straggler")
    assert (rows[0]["rank"], rows[0]["verdict"]) == (3, "same rank")
    assert "rank 2 is missing" in rows[0]["reason"]
    assert {row["missing_ranks"] for row in metric(made, "rank_skew")} == {"2"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("worlds", "complete", "problem"),
    [
        ((2, 2), True, None),
        ((None, None), None, None),
        ((2, 3), False, "world sizes differ: 2, 3"),
    ],
)
def test_completeness(
    worlds: tuple[int | None, ...], complete: bool | None, problem: str | None
) -> None:
    made = job(late(1, 2, 3), **ONE_HOST)
    for row, world in zip(made.rows["job_rank"], worlds, strict=True):
        row["world_size"] = world
    [summary] = metric(made, "job_summary")
    assert (summary["complete"], summary["problems"]) == (complete, problem)


@pytest.mark.slow
def test_a_rank_with_two_traces_is_left_out() -> None:
    made = job(late(1, 3, 4), world=3, **ONE_HOST)
    made.rows["job_rank"][2]["rank"] = 1
    [summary] = metric(made, "job_summary")
    assert summary["complete"] is False
    assert "rank 1 in run/rank1.json and run/rank2.json" in summary["problems"]
    # Rank 0 alone is left.
    assert metric(made, "straggler") == []


@pytest.mark.slow
def test_the_order_of_the_traces_does_not_matter() -> None:
    calls = late(2, 4, 5)
    first = metric(job(calls, **ONE_HOST), "straggler")
    again = metric(job(dict(reversed(calls.items())), **ONE_HOST), "straggler")
    assert first == again


def test_collectives_that_cannot_be_the_same_are_no_match() -> None:
    calls = late(1, 3, 6)
    # The last two of rank 2 are later ones of a loop that the others do not have.
    calls[2][4:] = shifted(calls[2][4:], 150 * MS)
    rows = relation(job(calls, **ONE_HOST), "matched_collective")
    why = "rank 2 begins after the end of another"
    assert {row["sequence"]: row["mismatch"] for row in rows} == {
        **dict.fromkeys(range(4)), 4: why, 5: why,
    }  # fmt: skip
    assert {row["wait_ns"] for row in rows if row["sequence"] >= 4} == {None}


@pytest.mark.slow
def test_skew_by_iteration() -> None:
    # Two all-reduces in each of three iterations of 400 ms; rank 1 is late in the second one.
    calls = late(1, 2, 6)
    for k in (0, 2, 4):
        calls[1][k] = calls[0][k]
    made = job(calls, **ONE_HOST)
    for rank in calls:
        for number in range(3):
            start = 400 * MS * number
            made.add_range(start, start + 400 * MS, f"iteration {number}", trace_id=f"t{rank}")
    rows = metric(made, "rank_skew", by="iteration")
    names = ("iteration", "rank", "lateness_ns", "wait_ns", "transfer_ns", "last_rank", "bytes")
    assert column(rows, *names) == [
        (number, rank, 40 * MS * rank, 40 * MS * (1 - rank), 160 * MS, 1, 8000)
        for number in range(3) for rank in range(2)
    ]  # fmt: skip
    assert {(row["sequence"], row["kind"], row["mismatch"]) for row in rows} == {(None,) * 3}
    single = metric(made, "rank_skew")
    assert column(single[::2], "sequence", "iteration") == [(k, k // 2) for k in range(6)]


@pytest.mark.slow
def test_collectives_outside_of_iterations_have_none() -> None:
    made = job(late(1, 2, 3), **ONE_HOST)
    assert metric(made, "rank_skew", by="iteration") == []
    assert {row["iteration"] for row in metric(made, "rank_skew")} == {None}
