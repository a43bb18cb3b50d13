"""Bandwidths of collectives and links, on made traces with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import reference_rows
from fast import examples
from made_ranks import MS, ONE_HOST, alone, job, late
from made_trace import MadeTrace, metric
from tbd_trace.query.advice import how_to_collect


def bandwidth(made: MadeTrace, *names: str, **parameters: Any) -> list[tuple[Any, ...]]:
    rows = metric(made, "collective_bandwidth", **parameters)
    return [tuple(row[name] for name in names) for row in rows]


def with_log(made: MadeTrace, peak: float, **row: Any) -> MadeTrace:
    """Add a log of nccl-tests with one size, of a bus bandwidth in bytes per second."""
    trace = f"log{made.next_id()}"
    made.add_trace(trace, kind="summary", tool="nccl-tests")
    name = row.pop("job", None)
    if name:
        made.add("job_rank", trace_id=trace, job=name)
    sample: dict[str, Any] = {"kind": "all_reduce", "ranks": 4, "bytes": 10**9, "dtype": "float"}
    sample |= {"sample_id": 1, "busbw_bytes_per_s": peak} | row
    factor = 2 * (sample["ranks"] - 1) / sample["ranks"] if sample["kind"] == "all_reduce" else 1
    sample["time_ns"] = round(1e9 * sample["bytes"] * factor / peak)
    made.add("link_sample", trace_id=trace, **sample)
    return made


def test_transfer_of_matched_collectives() -> None:
    # Rank 2 begins 40 ms late and all end at 100 ms: 60 ms for 4,000 bytes between 4 ranks.
    made = job(late(2, 4, 5), world=4, **ONE_HOST)
    names = (
        *("job", "trace_id", "kind", "bytes", "group_size", "group_evidence", "basis"),
        *("collectives", "median_ns", "p5_ns", "p95_ns", "algbw_bytes_per_s", "busbw_bytes_per_s"),
        *("link_pct", "uncertainty_ns"),
    )
    assert bandwidth(made, *names) == [
        ("run", None, "all_reduce", 4000, 4, "world size", "transfer", 5, 60 * MS, 60 * MS, 60 * MS,
         pytest.approx(4000 / 0.06), pytest.approx(4000 / 0.06 * 1.5), None, 100_000),
    ]  # fmt: skip


def test_unmatched_collectives_count_with_their_duration() -> None:
    made = job(late(1, 2, 4), sizes={(1, 3): 7}, world=2, **ONE_HOST)
    names = ("bytes", "basis", "collectives", "median_ns", "uncertainty_ns")
    assert bandwidth(made, *names) == [
        (4000, "duration", 1, 100 * MS, None),
        (4000, "transfer", 3, 60 * MS, 100_000),
        (28, "duration", 1, 60 * MS, None),
    ]


@pytest.mark.slow
def test_a_transfer_within_the_uncertainty_of_the_clocks_is_not_used() -> None:
    # 8 ms between the last start and the first end, by clocks that the ends align to 10 ms.
    made = job(late(1, 2, 4, delay=92 * MS), world=2)
    assert bandwidth(made, "basis", "collectives", "median_ns") == [("duration", 8, 54 * MS)]
    made = job(late(1, 2, 4, delay=92 * MS), world=2, **ONE_HOST)
    assert bandwidth(made, "basis", "collectives", "median_ns") == [("transfer", 4, 8 * MS)]


def test_a_broadcast_does_not_wait_for_others() -> None:
    made = job(late(1, 2, 4), kind="broadcast", world=2, **ONE_HOST)
    assert bandwidth(made, "basis", "collectives", "median_ns") == [("duration", 8, 80 * MS)]


@pytest.mark.slow
def test_without_a_world_size_the_ranks_count() -> None:
    calls = late(1, 3, 4)
    made = job(calls, **ONE_HOST)
    assert bandwidth(made, "group_size", "group_evidence") == [(3, "ranks present")]
    del calls[1]  # rank 2 shows that there is a rank 1
    made = job(calls, **ONE_HOST)
    assert bandwidth(made, "group_size", "group_evidence") == [(3, "ranks present")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "factor"),
    # https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md, for n = 4
    [
        ("allreduce", 1.5), ("_reduce_scatter_base", 0.75), ("_allgather_base", 0.75),
        ("all_to_allv", 0.75), ("broadcast", 1), ("reduce", 1), ("send", 1), ("recv", 1),
        ("barrier", None), ("gather", None), ("some", None), (None, None),
    ],
)  # fmt: skip
def test_factors_of_the_bus_bandwidth(kind: str | None, factor: float | None) -> None:
    made = alone(kind, 1000)
    [(algbw, busbw)] = bandwidth(made, "algbw_bytes_per_s", "busbw_bytes_per_s")
    assert algbw == pytest.approx(4e9)
    assert busbw == (None if factor is None else pytest.approx(4e9 * factor))


def test_unknown_bytes_have_no_bandwidth() -> None:
    made = alone("allreduce", 1000, input_elements=None)
    assert bandwidth(made, "bytes", "median_ns", "algbw_bytes_per_s", "busbw_bytes_per_s") == [
        (None, 1000, None, None)
    ]


@pytest.mark.slow
def test_groups_of_one_or_unknown_size_have_no_bus_bandwidth() -> None:
    for size in (None, 1):
        made = alone("allreduce", 1000, group_size=size)
        assert bandwidth(made, "group_size", "algbw_bytes_per_s", "busbw_bytes_per_s") == [
            (size, pytest.approx(4e9), None)
        ]


def test_an_instant_has_no_bandwidth() -> None:
    assert bandwidth(alone("allreduce", 0), "median_ns", "algbw_bytes_per_s") == [(0, None)]


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.lists(st.integers(1, MS - 1), min_size=1, max_size=40))
def test_percentiles(durations: list[int]) -> None:
    made = alone("allreduce", *durations)
    names = ("collectives", "median_ns", "p5_ns", "p95_ns", "algbw_bytes_per_s")
    wanted = np.percentile(durations, [50, 5, 95])
    assert bandwidth(made, *names) == [
        (len(durations), *map(pytest.approx, wanted), pytest.approx(4e12 / wanted[0]))
    ]


LINK = ("busbw_bytes_per_s", "link_pct", "link_bytes_per_s", "link_evidence")


def test_share_of_a_nominal_link() -> None:
    # 6 GB/s of 80 Gbit/s, which are 10 GB/s.
    assert bandwidth(alone("allreduce", 1000), *LINK, link_gbit=80.0) == [
        (pytest.approx(6e9), pytest.approx(60.0), 1e10, "link_gbit")
    ]


@pytest.mark.slow
def test_share_of_a_link_that_nccl_tests_measured() -> None:
    made = with_log(alone("allreduce", 1000), 24e9)
    assert bandwidth(made, *LINK[1:]) == [(pytest.approx(25.0), pytest.approx(24e9), "nccl-tests")]
    # What the user says counts.
    assert bandwidth(made, *LINK[1:], link_gbit=80.0) == [(pytest.approx(60.0), 1e10, "link_gbit")]


@pytest.mark.slow
def test_a_log_of_other_ranks_counts_in_its_job_only() -> None:
    made = job(late(2, 4, 5), world=4, **ONE_HOST)
    with_log(made, 3e9, ranks=8)
    assert bandwidth(made, *LINK[1:]) == [(None, None, None)]
    with_log(made, 1e9, ranks=8, job="other")
    with_log(made, 5e9, ranks=2, job="run")
    with_log(made, 7e9)
    assert bandwidth(made, *LINK[2:]) == [(pytest.approx(5e9), "nccl-tests")]
    with_log(made, 9e9, ranks=2, kind="broadcast", job="run")
    assert bandwidth(made, *LINK[2:]) == [(pytest.approx(5e9), "nccl-tests")]
    with_log(made, 4e9, job="run")
    assert bandwidth(made, *LINK[2:]) == [(pytest.approx(4e9), "nccl-tests")]


@pytest.mark.slow
def test_bandwidths_of_tracelens() -> None:
    name = "tracelens_llama70b_fsdp_8rank__nccl_summary_implicit_sync.csv"
    rows = reference_rows(f"network/oracle/{name}")
    assert rows
    for row in rows:
        size = float(row["Full msg size (MB)"]) * 2**20
        elements = {"dtype": "Byte", "input_elements": round(size), "group_size": 8}
        latency = round(1000 * float(row["comm_latency_median"]))
        made = alone(row["Collective name"], latency, **elements)
        [found] = bandwidth(made, "algbw_bytes_per_s", "busbw_bytes_per_s")
        # Its GB are GiB. With an even count, the median of rates is not the rate of the median.
        wanted = [float(row[f"{name} bw (GB/s)_median"]) * 2**30 for name in ("algo", "bus")]
        assert found == pytest.approx(tuple(wanted), rel=1e-3)


# links


def log(*points: tuple[int, int], **row: Any) -> MadeTrace:
    """A log of an all-reduce of two ranks, where the bus bandwidth is bytes per time."""
    made = MadeTrace()
    for number, (size, time) in enumerate(points):
        made.add("link_sample", **{
            "sample_id": number, "kind": "all_reduce", "ranks": 2, "nodes": 1, "dtype": "float",
            "operation": "sum", "placement": "in-place", "bytes": size, "time_ns": time,
            "busbw_bytes_per_s": 5.0,
        } | row)  # fmt: skip
    return made


def link(made: MadeTrace, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in metric(made, "link_summary")]


def test_latency_peak_and_half_bandwidth() -> None:
    # Bytes per ns: 0.001, 0.5, 2, 3.9, 4.
    made = log((8, 8000), (1000, 2000), (4000, 2000), (39_000, 10_000), (400_000, 100_000))
    names = ("latency_ns", "peak_busbw_bytes_per_s", "peak_bytes", "half_bandwidth_bytes",
             "is_saturated", "sizes", "smallest_bytes", "largest_bytes", "evidence")  # fmt: skip
    assert link(made, *names) == [
        (8000, pytest.approx(4e9), 400_000, pytest.approx(4000), True, 5, 8, 400_000, "computed")
    ]
    # Half of 3 is reached between 1,000 and 4,000 bytes: by (1.5 - 0.5) / (2 - 0.5) of the way.
    made = log((8, 8000), (1000, 2000), (4000, 2000), (30_000, 10_000))
    assert link(made, "half_bandwidth_bytes", "is_saturated") == [(pytest.approx(3000), False)]


def test_large_messages_alone_show_no_latency() -> None:
    made = log((8192, 2000), (16_384, 4000))
    names = ("latency_ns", "half_bandwidth_bytes", "is_saturated")
    assert link(made, *names) == [(None, None, True)]
    assert link(log((4096, 2000)), *names) == [(2000, None, None)]


def test_repeated_sizes_are_one() -> None:
    made = log((8, 10), (8, 30), (8, 20), (0, 5))
    assert link(made, "sizes", "latency_ns") == [(1, 20)]


def test_without_ranks_or_kind_the_printed_bandwidth_counts() -> None:
    for unknown in ("ranks", "kind"):
        made = log((8, 10), **{unknown: None})
        assert link(made, "peak_busbw_bytes_per_s", "evidence") == [(5.0, "printed")]


@pytest.mark.parametrize(("printed", "peak"), [(0.0, None), (1.0, 1.0)])
def test_a_printed_bandwidth_of_zero_is_none(printed: float, peak: float | None) -> None:
    made = log((8, 10), kind=None, busbw_bytes_per_s=printed)
    assert link(made, "peak_busbw_bytes_per_s") == [(peak,)]


def test_a_time_of_zero_has_no_bandwidth() -> None:
    made = log((8, 0), (16, 4))
    assert link(made, "sizes", "peak_busbw_bytes_per_s", "peak_bytes") == [(2, 4e9, 16)]


def test_each_placement_and_type_has_a_row() -> None:
    made = log((8, 10))
    for number, row in enumerate(log((8, 20), placement="out-of-place").rows["link_sample"]):
        made.add("link_sample", **row | {"sample_id": 10 + number})
    made.add("link_sample", **made.rows["link_sample"][0] | {"sample_id": 20, "dtype": "half"})
    assert link(made, "dtype", "placement", "latency_ns") == [
        ("float", "out-of-place", 20), ("float", "in-place", 10), ("half", "in-place", 10),
    ]  # fmt: skip


def test_what_a_link_needs() -> None:
    said = how_to_collect(["link_test"], "torch", "timeline")
    assert said.startswith("needs measurements of the link; run `all_reduce_perf")
