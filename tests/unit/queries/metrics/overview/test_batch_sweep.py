"""batch_sweep: captures of one model over batch sizes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from made_trace import MadeTrace, Row, metric, relation

PERIOD = 1000
ALIKE: dict[str, Any] = {
    "model": "resnet50", "framework": "pytorch", "framework_version": "2.13.0", "world_size": 1,
    "precision": "fp32", "optimizer": "sgd", "dataset": "synthetic", "scale": "full",
}  # fmt: skip


def add(made: MadeTrace, batch_size: int, flop_per_sample: float = 500.0, **said: Any) -> None:
    """Add a capture: per iteration of 1 µs one kernel that takes 20 ns a sample, in layer conv."""
    name = said.pop("name", f"b{batch_size}")
    trace: Row = {"trace_id": name}
    peak = {"peak_device_bytes": 1000 * batch_size}
    made.add_trace(
        name,
        name=f"{name}/timeline.sqlite",
        batch_size=batch_size,
        capture=json.dumps(ALIKE | peak | said),
    )
    made.add_device(name="A100", **trace)
    made.add_layer("conv", forward_flop=flop_per_sample, backward_flop=0.0, **trace)
    for number in range(6):
        start = PERIOD * number
        made.add_range(start, start + 900, f"iteration {number}", **trace)
        made.add_range(start + 10, start + 50, "layer:conv", **trace)
        made.launch(start + 20, start + 100, start + 100 + 20 * batch_size, "convolve", **trace)


@pytest.mark.slow
def test_numbers_grow_with_the_batch() -> None:
    made = MadeTrace()
    for batch_size in (32, 8, 16):
        add(made, batch_size)
    rows = metric(made, "batch_sweep")
    assert [row["batch_size"] for row in rows] == [8, 16, 32]
    assert {row["configuration"] for row in rows} == {"pytorch"}
    assert [row["throughput"] for row in rows] == pytest.approx([8e6, 16e6, 32e6])
    assert [row["gpu_busy_pct"] for row in rows] == pytest.approx(
        [100 * 20 * n / PERIOD for n in (8, 16, 32)]
    )
    # 500 FLOP in 20 ns, of 100 FLOP/ns
    assert [row["fp32_util_pct"] for row in rows] == pytest.approx([25, 25, 25])
    assert {(row["fp32_evidence"], row["tensor_evidence"]) for row in rows} == {("modelled", None)}
    assert [row["peak_device_bytes"] for row in rows] == [8000, 16_000, 32_000]
    assert all(row["differs"] is None for row in rows)


def test_without_a_run_of_its_own_samples_are_counted_under_the_profiler() -> None:
    made = MadeTrace()
    add(made, 8)
    add(made, 16, throughput={"samples_per_second": 5.0})
    rows = {row["capture"]: row for row in relation(made, "benchmark_run")}
    assert (rows["b8"]["samples_per_s"], rows["b8"]["evidence"]) == (pytest.approx(8e6), "profiled")
    assert (rows["b16"]["samples_per_s"], rows["b16"]["evidence"]) == (5, "unprofiled")


@pytest.mark.slow
def test_counters_are_believed_before_a_model() -> None:
    made = MadeTrace()
    add(made, 8)
    for kernel in made.rows["kernel"]:
        made.add_metric(kernel["kernel_id"], "flop_count_sp", 1600, trace_id="b8")
    (row,) = metric(made, "batch_sweep")
    assert (row["fp32_util_pct"], row["fp32_evidence"]) == (pytest.approx(10), "counter")


@pytest.mark.slow
def test_a_number_above_the_peak_is_none() -> None:
    made = MadeTrace()
    add(made, 8, flop_per_sample=5000)
    (row,) = metric(made, "batch_sweep")
    assert (row["fp32_util_pct"], row["fp32_evidence"]) == (None, None)


@pytest.mark.slow
def test_what_was_not_measured_alike_is_shown_only_if_forced() -> None:
    made = MadeTrace()
    add(made, 8)
    add(made, 16, precision="tf32")
    first, second = metric(made, "batch_sweep")
    assert first["differs"] == second["differs"] == ["precision is fp32 in b8, but tf32 in b16"]
    for row in (first, second):
        assert (row["throughput"], row["gpu_busy_pct"], row["fp32_util_pct"]) == (None, None, None)
    forced = metric(made, "batch_sweep", force=True)
    assert [row["configuration"] for row in forced] == [
        "pytorch, precision fp32", "pytorch, precision tf32"
    ]  # fmt: skip
    assert [row["throughput"] for row in forced] == pytest.approx([8e6, 16e6])


def test_utilization_by_something_else_is_left_out() -> None:
    made = MadeTrace()
    add(made, 8)
    (row,) = metric(made, "batch_sweep", by="layer")
    assert row["fp32_util_pct"] is None
    assert row["throughput"] == pytest.approx(8e6)
