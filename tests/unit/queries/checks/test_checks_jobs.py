"""Rules about the ranks of a job, on made traces."""

from __future__ import annotations

from typing import Any

import pytest

from made_checks import kernel, row_of, rows_of, train, verdict
from made_ranks import MS, ONE_HOST, alone, job, late, shifted
from made_trace import MadeTrace

BYTES = 16 * 2**20
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


# NET02


@pytest.mark.slow
def test_one_rank_keeps_the_others_waiting() -> None:
    row = row_of(job(late(2, 4, 5), world=4, **ONE_HOST), "NET02")
    assert verdict(row) == ("finding", "warning")
    assert (row["value"], row["threshold"], row["evidence"]) == (100, 60, "matched collectives")
    assert row["reason"] == (
        "run: rank 2 is last in 5 of 5 decided collectives, by 40.000 ms (20.0 % of an iteration); "
        "the others wait 600.000 ms for it"
    )
    assert row["trace_id"] is None
    assert row["advice"].startswith("compare that rank")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, "finding"),
        ({"min_lateness_pct": 20.0}, "pass"),
        ({"min_share_pct": 100.0}, "pass"),
        ({"min_collectives": 6}, "not evaluable"),
    ],
)
def test_thresholds_of_the_last_rank(parameters: dict[str, Any], expected: str) -> None:
    made = job(late(2, 4, 5), world=4, **ONE_HOST)
    assert row_of(made, "NET02", **parameters)["verdict"] == expected


def rotating(ranks: int) -> dict[int, list[tuple[int, int]]]:
    calls: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(ranks)}
    for k in range(6):
        for rank, own in calls.items():
            own.append((200 * MS * k + 40 * MS * (rank == k % ranks), 200 * MS * k + 100 * MS))
    return calls


@pytest.mark.slow
def test_ranks_that_take_turns_pass() -> None:
    row = row_of(job(rotating(3), world=3, **ONE_HOST), "NET02")
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(100 / 3)


@pytest.mark.slow
def test_a_missing_rank_could_be_the_late_one() -> None:
    row = row_of(job(rotating(3), world=4, **ONE_HOST), "NET02")
    assert verdict(row) == ("not evaluable", None)
    assert "rank 3 is missing" in row["reason"]
    calls = late(2, 4, 5)
    del calls[1]
    assert row_of(job(calls, world=4, **ONE_HOST), "NET02")["verdict"] == "finding"


@pytest.mark.slow
def test_clocks_that_are_too_uncertain() -> None:
    row = row_of(job(late(1, 2, 8, delay=9 * MS), world=2), "NET02")
    assert verdict(row) == ("not evaluable", None)
    assert "uncertainty of the clocks, 10.000 ms" in row["reason"]
    assert row["value"] is None


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["NET02", "NET03"])
def test_without_a_job_there_is_one_row(rule: str) -> None:
    made = MadeTrace()
    made.launch(0, 10, 20)
    row = row_of(made, rule)
    assert verdict(row) == ("not evaluable", None)
    assert row["reason"].startswith("no ")
    assert row["advice"].startswith("traces of all ranks")


@pytest.mark.slow
def test_each_job_has_a_row() -> None:
    made = job(late(1, 2, 5), world=2, **ONE_HOST)
    for table, rows in job(rotating(2), world=2, **ONE_HOST).rows.items():
        for row in rows:
            other = row | {"trace_id": f"other {row['trace_id']}"}
            made.add(table, **(other | {"job": "other"} if "job" in row else other))
    rows = rows_of(made, "NET02")
    assert [(row["reason"].split(":")[0], row["verdict"]) for row in rows] == [
        ("other", "pass"), ("run", "finding"),
    ]  # fmt: skip


# NET03


def large(took: int, number: int = 3, **record: Any) -> MadeTrace:
    """One trace of large broadcasts between 4 ranks, which nobody waits for."""
    return alone("broadcast", *[took] * number, **({"input_elements": BYTES // 4} | record))


def transfers(delay: int) -> MadeTrace:
    """A job of two ranks with all-reduces of 16 MiB in 100 ms less the delay."""
    elements = {(rank, k): BYTES // 4 for rank in range(2) for k in range(4)}
    return job(late(1, 2, 4, delay=delay), world=2, sizes=elements, **ONE_HOST)


@pytest.mark.slow
def test_share_of_the_link_of_transfers() -> None:
    # 16 MiB in 80 ms are 1.678 Gbit/s; between two ranks the bus sees as much.
    rate = 8 * BYTES / 80e6
    row = row_of(transfers(20 * MS), "NET03", link_gbit=2.5)
    assert verdict(row) == ("finding", "warning")
    assert row["value"] == pytest.approx(100 * rate / 2.5)
    assert (row["threshold"], row["evidence"]) == (70, "link_gbit")
    assert row["reason"].startswith("run: all_reduce of 16.0 MiB between 2 ranks moves 0.21 GB/s")
    for share, expected in ((0.701, "pass"), (0.699, "finding")):
        row = row_of(transfers(20 * MS), "NET03", link_gbit=rate / share)
        assert row["verdict"] == expected


@pytest.mark.slow
def test_durations_can_pass_but_blame_no_link() -> None:
    made = alone("allreduce", *[10 * MS] * 3, input_elements=BYTES // 4)
    rate = 8 * BYTES / 10e6 * 1.5
    assert verdict(row_of(made, "NET03", link_gbit=rate / 0.71)) == ("pass", None)
    row = row_of(made, "NET03", link_gbit=rate / 0.69)
    assert verdict(row) == ("not evaluable", None)
    assert "69.0 % of the link, but with the wait for other ranks" in row["reason"]


@pytest.mark.parametrize(
    ("made", "parameters", "said"),
    [
        (transfers(20 * MS), {}, "the bandwidth of the link is unknown"),
        (large(MS, 2), {"link_gbit": 1.0}, "fewer than 3 collectives"),
        (large(MS, input_elements=None), {"link_gbit": 1.0}, "fewer than 3 collectives"),
        (large(MS), {"link_gbit": 1.0, "large_bytes": BYTES + 1}, "at least 16.0 MiB"),
        (large(MS, group_size=None), {"link_gbit": 1.0}, "have a known bus bandwidth"),
    ],
)
def test_what_the_share_of_the_link_needs(
    made: MadeTrace, parameters: dict[str, Any], said: str
) -> None:
    row = row_of(made, "NET03", **parameters)
    assert verdict(row) == ("not evaluable", None)
    assert said in row["reason"]
    assert row["value"] is None


# COM01


@pytest.mark.slow
@pytest.mark.parametrize("utc", [0, None])
def test_exposed_communication_of_a_job_says_how_much_is_wait(utc: int | None) -> None:
    # Of each 10 ms rank 0 communicates from 5 to 9 ms, and rank 1 joins it at 8 ms.
    made = MadeTrace()
    for rank, start in enumerate((5 * MS, 8 * MS)):
        trace = f"t{rank}"
        work = kernel(MS, MS), kernel(start, 9 * MS - start, ALL_REDUCE)
        train(made, *work, trace_id=trace, periods=[10 * MS] * 12)
        made.add_trace(trace, name=f"rank{rank}", utc_start_ns=utc)
        made.add("job_rank", trace_id=trace, job="run", rank=rank, world_size=2, host="a",
                 evidence="distributedInfo")  # fmt: skip
    rows = {row["trace_id"]: row for row in rows_of(made, "COM01")}
    assert [rows[trace]["verdict"] for trace in ("t0", "t1")] == ["finding", "pass"]
    for trace, wait in (("t0", 75), ("t1", 0)):
        said = f"in matched collectives, {wait} % of the time is wait for other ranks"
        assert said in rows[trace]["reason"]


@pytest.mark.slow
def test_waits_within_the_uncertainty_of_the_clocks_are_not_said() -> None:
    made = MadeTrace()
    for rank, start in enumerate((500, 800)):
        trace = f"t{rank}"
        train(made, kernel(100, 100), kernel(start, 900 - start, ALL_REDUCE), trace_id=trace)
        made.add("job_rank", trace_id=trace, job="run", rank=rank, world_size=2)
    rows = rows_of(made, "COM01")
    assert [row["verdict"] for row in rows] == ["finding", "pass"]
    assert not any("wait for other ranks" in row["reason"] for row in rows)


@pytest.mark.slow
def test_shifted_ranks_are_judged_alike() -> None:
    calls = late(1, 3, 6)
    plain = row_of(job(calls, world=3), "NET02")
    calls[1] = shifted(calls[1], 7 * 3600 * 10**9)
    assert row_of(job(calls, world=3), "NET02") == plain
