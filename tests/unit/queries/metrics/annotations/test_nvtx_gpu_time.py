"""nvtx_gpu_time: every operation counts once, in the innermost range around its launch."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import SAME_HASH, MadeTrace, Row, metric

TEXTS = ["linear", "aten::mm, seq = 4", "aten::mm, seq = 9, op_id = 3", "mm, op_id = 1", "x = 1"]
NAMES = {TEXTS[1]: "aten::mm", TEXTS[2]: "aten::mm", TEXTS[3]: "mm"}
NAMES |= dict.fromkeys(SAME_HASH, "aten::relu_")


def innermost(ranges: list[Any], trace: str, at: int) -> Any:
    """Return number and range of what began last around an instant of a trace."""
    around = [
        (start, number, (domain, text, kind))
        for number, (owner, start, length, domain, text, kind) in enumerate(ranges)
        if owner == trace and start <= at and at + 1 <= start + length
    ]
    return max(around, default=(None, None, (None, None, None)))[1:]


def summed(ranges: list[Any], operations: list[Any], by: str) -> dict[Any, Row]:
    """Work the answer out operation by operation, without shares."""
    found: dict[Any, dict[str, Any]] = {}
    for trace, at, op_kind, name, duration in operations:
        number, (domain, text, style) = innermost(ranges, trace, at)
        text = NAMES.get(text, text) if by == "name" else text
        shown = text if domain is None else f"{domain}:{text}"
        group = found.setdefault(
            (trace, shown, style),
            {"ranges": set(), "kernels": defaultdict(list), "copies": []},
        )
        if number is not None:
            group["ranges"].add(number)
        if op_kind == "kernel":
            group["kernels"][name].append(duration)
        else:
            group["copies"].append(duration)
    rows = {}
    for key, group in found.items():
        times = {name: sum(durations) for name, durations in group["kernels"].items()}
        gpu_ns, ranges_held = sum(times.values()), len(group["ranges"])
        rows[key] = {
            "instances": ranges_held or None,
            "kernels": sum(map(len, group["kernels"].values())),
            "gpu_ns": gpu_ns,
            "mean_ns": gpu_ns / ranges_held if ranges_held else None,
            "kernel_name": max(times, key=lambda name: (times[name], name), default=None),
            "kernel_pct": pytest.approx(100 * max(times.values()) / gpu_ns) if gpu_ns else None,
            "memory_operations": len(group["copies"]),
            "memory_ns": sum(group["copies"]),
        }
    return rows


@settings(max_examples=examples(30))
@given(
    ranges=st.lists(
        st.tuples(
            st.sampled_from(["t", "u"]),
            st.integers(0, 20),
            st.integers(0, 20),
            st.sampled_from([None, "mine"]),
            st.sampled_from([*TEXTS, *SAME_HASH]),
            st.sampled_from(["push_pop", "start_end"]),
        ),
        min_size=1,
        max_size=12,
    ),
    operations=st.lists(
        st.tuples(
            st.sampled_from(["t", "u"]),
            st.integers(0, 20),
            st.sampled_from(["kernel", "memcpy"]),
            st.sampled_from(["gemm", "relu"]),
            st.integers(0, 100),
        ),
        max_size=12,
        unique_by=lambda operation: operation[:2],  # calls of a thread follow each other
    ),
    by=st.sampled_from(["name", "text"]),
)
def test_by_brute_force(ranges: list[Any], operations: list[Any], by: str) -> None:
    made = MadeTrace()
    for trace, start, length, domain, text, kind in ranges:
        made.add_range(start, start + length, text, trace_id=trace, domain=domain, kind=kind)
    for number, (trace, at, op_kind, name, duration) in enumerate(operations):
        made.add_call(at, at + 1, trace_id=trace, correlation_id=1 + number)
        row = {"trace_id": trace, "correlation_id": 1 + number}
        if op_kind == "kernel":
            made.add_kernel(1000, 1000 + duration, name, **row)
        else:
            made.add_memcpy(1000, 1000 + duration, **row)
    rows = metric(made, "nvtx_gpu_time", by=by)
    expected = summed(ranges, operations, by)
    found = {(row["trace_id"], row["range_name"], row["style"]): row for row in rows}
    assert len(found) == len(rows)
    assert {key: {c: row[c] for c in expected[key]} for key, row in found.items()} == expected
    for row in rows:
        whole = sum(other["gpu_ns"] for other in rows if other["trace_id"] == row["trace_id"])
        share = pytest.approx(100 * row["gpu_ns"] / whole) if whole else None
        assert row["share_pct"] == share
    order = [(row["trace_id"], -row["gpu_ns"], -row["memory_ns"]) for row in rows]
    assert order == sorted(order)


def test_a_library_s_range_counts_where_no_other_is_around() -> None:
    made = MadeTrace()
    made.add_range(0, 100, "Flip", domain="DALI")
    made.launch(10, 200, 210)
    made.add_range(300, 400, "step")
    made.add_range(310, 390, "AllReduce", domain="NCCL")
    made.launch(350, 500, 530)
    rows = metric(made, "nvtx_gpu_time")
    assert [(row["range_name"], row["gpu_ns"]) for row in rows] == [("step", 30), ("DALI:Flip", 10)]
    rows = metric(made, "nvtx_gpu_time", library_domains="^$")
    assert [row["range_name"] for row in rows] == ["NCCL:AllReduce", "DALI:Flip"]


def test_what_nothing_is_around_has_a_row_of_its_own() -> None:
    made = MadeTrace()
    made.add_range(0, 20, "a")
    made.launch(10, 200, 210)
    made.launch(30, 210, 240)
    made.add_kernel(240, 250)  # the call was not recorded
    outside, inside = metric(made, "nvtx_gpu_time")
    assert (outside["range_name"], outside["style"], outside["instances"]) == (None, None, None)
    assert (outside["kernels"], outside["gpu_ns"], outside["mean_ns"]) == (2, 40, None)
    assert (inside["range_name"], inside["share_pct"]) == ("a", 20.0)


def test_texts_of_the_same_hash_are_two() -> None:
    made = MadeTrace()
    for at, text in zip((0, 100), SAME_HASH, strict=True):
        made.add_range(at, at + 50, text)
        made.launch(at + 10, 1000 + at, 1010 + at)
    rows = metric(made, "nvtx_gpu_time", by="text")
    assert [(row["range_name"], row["gpu_ns"]) for row in rows] == [(t, 10) for t in SAME_HASH]


def test_nested_ranges_of_one_name_do_not_count_twice() -> None:
    made = MadeTrace()
    made.add_range(0, 100, "aten::linear, seq = 1")
    made.add_range(10, 90, "aten::linear, seq = 1")
    made.launch(50, 200, 210)
    [row] = metric(made, "nvtx_gpu_time")
    assert (row["instances"], row["kernels"], row["gpu_ns"]) == (1, 1, 10)
