"""Measured iterations of several workers beside the prediction, with numbers worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from made_run import CAPTURE, add_run
from made_trace import MadeTrace, metric, relation


def add_points(made: MadeTrace, trace: str, measured: dict[float, float], **link: float) -> None:
    """Add points of two workers: seconds of the quietest iteration by Gbit/s; one takes 100 ms."""
    alone = {"point_id": 0, "is_own": True, "world_size": 1, "median_s": 0.1, "quietest_s": 0.1}
    made.add("job_point", trace_id=trace, scheme="ddp", iterations=9, **alone)
    for number, (gbit_s, seconds) in enumerate(measured.items(), 1):
        made.add(
            "job_point",
            trace_id=trace,
            scheme="ddp",
            iterations=9,
            point_id=number,
            is_own=False,
            world_size=2,
            bandwidth_bits_per_s=gbit_s * 1e9,
            median_s=seconds + 0.01,
            quietest_s=seconds,
            **link,
        )


def sweep(**link: float) -> MadeTrace:
    made = MadeTrace()
    add_run(made, "t", [100] * 11)
    add_points(made, "t", {0.5: 0.16, 1: 0.125, 4: 0.105}, **link)
    return made


def speedups(made: MadeTrace, **parameters: Any) -> list[tuple[float, ...]]:
    wanted: dict[str, Any] = {"scheme": "ddp", "workers": "2", "latency_s": 0.0}
    rows = metric(made, "dp_speedup", **(wanted | parameters))
    names = ("bandwidth_gbit", "iteration_s", "measured_s", "measured_speedup", "error_pct")
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.slow
def test_predictions_are_compared_where_they_were_measured() -> None:
    """An iteration of 100 ms and an all-reduce of 20 ms ÷ Gbit/s after the only backward pass."""
    assert speedups(sweep(), bandwidth_gbit="2") == [
        pytest.approx((0.5, 0.14, 0.16, 1.25, -12.5)),
        pytest.approx((1, 0.12, 0.125, 1.6, -4)),
        (2, pytest.approx(0.11), None, None, None),
        pytest.approx((4, 0.105, 0.105, 0.2 / 0.105, 0)),
    ]


@pytest.mark.slow
def test_only_what_was_asked_for_is_compared() -> None:
    assert [row[2] for row in speedups(sweep(), scheme="serial", bandwidth_gbit="1")] == [None]
    assert [row[2] for row in speedups(sweep(), workers="4", bandwidth_gbit="1")] == [None]


@pytest.mark.slow
def test_the_measured_link_is_used() -> None:
    """At each rate 80 % of it arrive, an all-reduce takes 1 ms at least, the host 1 Gbit/s."""
    link = {"all_reduce_s": 0.001, "host_bytes_per_s": 1.25e8}
    made = sweep(**link, busbw_bytes_per_s=0.5e9 / 8 * 0.8)
    times = {row[0]: row[1] for row in speedups(made, bandwidth_gbit="2")}
    assert times == pytest.approx({0.5: 0.151, 1: 0.126, 2: 0.121, 4: 0.121})
    given = speedups(made, link_efficiency=1.0, all_reduce_s=0.0, host_bytes_per_s=0.0)
    assert given[0][1] == pytest.approx(0.14)
    (row,) = metric(made, "dp_speedup", scheme="ddp", workers="2", bandwidth_gbit="1")[1:2]
    assert (row["measured_by"], row["inputs"]) == ("job.json", "gpu time, layers.json, job.json")


@pytest.mark.slow
def test_bracket_of_the_smallest_bandwidth() -> None:
    wanted = {"scheme": "ddp", "workers": "2,4", "target_speedup": "1,1.6,1.99", "latency_s": 0.0}
    rows = metric(sweep(), "min_bandwidth", **wanted)
    names = ("measured_below_gbit_s", "measured_enough_gbit_s")
    found = {(row["workers"], row["target_speedup"]): tuple(row[n] for n in names) for row in rows}
    assert found == {
        (2, 1): (None, 0.5),
        (2, 1.6): (0.5, 1),
        (2, 1.99): (4, None),
        **{(4, target): (None, None) for target in (1, 1.6, 1.99)},
    }


@pytest.mark.slow
def test_traces_of_a_job_of_the_same_workload_are_measurements() -> None:
    """Each iteration is the longest over the ranks; that of one worker takes 100 ms."""
    made = MadeTrace()
    other = json.dumps({"model": "other", "batch_size": 8})
    add_run(made, "t", [100] * 11)
    # Of jobs that differ in the workload, or lack a rank, nothing is compared.
    jobs = {
        ("run", CAPTURE): ([130, *[120] * 10], [110, *[125] * 10]),
        ("other", other): ([90] * 11, [90] * 11),
        ("half", CAPTURE): ([90] * 11,),
    }
    for (job, capture), ranks in jobs.items():
        for rank, periods in enumerate(ranks):
            add_run(made, f"{job}{rank}", periods, capture)
            made.add("job_rank", trace_id=f"{job}{rank}", job=job, rank=rank, world_size=2)
    (found,) = relation(made, "measured_speedup", link_gbit=1)
    assert (found["trace_id"], found["workers"], found["source"]) == ("t", 2, "ranks")
    assert found["iteration_s"] == pytest.approx(0.125)
    assert found["speedup"] == pytest.approx(2 * 0.1 / 0.125)
    rows = speedups(made, link_gbit=1, bandwidth_gbit="1")
    assert rows == [pytest.approx((1, 0.12, 0.125, 1.6, -4))]
    # A point without a bandwidth has no position on the curve.
    assert speedups(made, bandwidth_gbit="1")[0][2] is None


@pytest.mark.slow
def test_ranks_are_no_worker_alone() -> None:
    made = MadeTrace()
    add_run(made, "r", [100] * 11)
    made.add("job_rank", trace_id="r", job="run", rank=0, world_size=2)
    assert relation(made, "_dp_run") == []
    assert [row["ranks"] for row in relation(made, "layer_cost")] == [2]
