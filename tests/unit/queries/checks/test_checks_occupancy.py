"""Rules about how full kernels keep the SMs, on a GPU of 25 SMs with 64 warps each."""

from __future__ import annotations

from typing import Any

import pytest

from made_checks import kernel, row_of, train, verdict
from made_trace import MadeTrace, Row

ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
TENSOR = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"


def launch(blocks: int = 100_000, threads: int = 1024, registers: int = 32) -> Row:
    """Return a launch configuration; by default two blocks of 32 warps fill an SM."""
    return {
        **{"grid_x": blocks, "grid_y": 1, "grid_z": 1},
        **{"block_x": threads, "block_y": 1, "block_z": 1},
        **{"registers_per_thread": registers, "static_shared_bytes": 0, "dynamic_shared_bytes": 0},
    }


# 255 registers: a warp takes 8192, two fit into a quarter of 65536: 8 of the 64 warps of an SM
FEW_WARPS = launch(threads=256, registers=255)


def training(name: str = "work", row: Row | None = None, **metrics: float) -> MadeTrace:
    """Return a training of `work` (400 ns) beside a kernel that fills the SMs (600 ns)."""
    made = MadeTrace()
    made.add_device()
    ids = train(
        made, kernel(100, 400, name, **(row or FEW_WARPS)), kernel(500, 600, "full", **launch())
    )
    for number, _ in ids:
        for metric, value in metrics.items():
            made.add_metric(number, metric, value)
    return made


@pytest.mark.slow
def test_a_launch_of_few_warps_is_found() -> None:
    row = row_of(training(), "OCC01")
    assert verdict(row) == ("finding", "note")
    assert (row["value"], row["threshold"], row["evidence"]) == (12.5, 50, "modelled")
    assert row["reason"] == (
        "kernels with low occupancy take 40.0 % of the kernel time: "
        "work (40.0 % of the time, 12 % theoretical, limited by registers)"
    )


@pytest.mark.slow
def test_launches_without_a_configuration_do_not_hide_the_limiter() -> None:
    made = MadeTrace()
    made.add_device()
    train(
        made, kernel(100, 150, **FEW_WARPS), kernel(300, 250), kernel(600, 300, "full", **launch())
    )
    reason = row_of(made, "OCC01")["reason"]
    assert "work (57.1 % of the time, 12 % theoretical, limited by registers)" in reason


@pytest.mark.slow
def test_full_sms_and_short_kernels_pass() -> None:
    row = row_of(training(row=launch()), "OCC01")
    assert (row["verdict"], row["value"], row["threshold"]) == ("pass", 100, 50)
    assert row_of(training(), "OCC01", min_share_pct=41)["verdict"] == "pass"
    assert row_of(training(), "OCC01", min_theoretical_pct=12)["verdict"] == "pass"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tensor", "expected"),
    [
        ("ampere_sgemm_128x64_nn", None, "not evaluable"),
        ("ampere_sgemm_128x64_nn", 59.0, "finding"),
        ("ampere_sgemm_128x64_nn", 60.0, "pass"),
        ("work", 75.0, "pass"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", None, "pass"),
    ],
)
def test_low_occupancy_is_normal_on_tensor_cores_and_for_communication(
    name: str, tensor: float | None, expected: str
) -> None:
    made = training(name, **({TENSOR: tensor} if tensor is not None else {}))
    assert row_of(made, "OCC01")["verdict"] == expected


@pytest.mark.slow
@pytest.mark.parametrize(("achieved", "expected"), [(59.0, "finding"), (61.0, "pass")])
def test_achieved_far_below_theoretical_is_found(achieved: float, expected: str) -> None:
    row = row_of(training(row=launch(), **{ACHIEVED: achieved}), "OCC01")
    assert (row["verdict"], row["evidence"]) == (expected, "counter")
    if expected == "finding":
        assert (row["value"], row["threshold"]) == (pytest.approx(achieved), pytest.approx(60))
        assert "59 % of it achieved" in row["reason"]


@pytest.mark.slow
def test_an_unknown_gpu_has_no_known_limits() -> None:
    made = training()
    made.rows["device"].clear()
    for rule in ("OCC01", "OCC02"):
        assert "the limits of this GPU" in row_of(made, rule)["reason"]


@pytest.mark.slow
def test_counters_alone_are_judged() -> None:
    made = MadeTrace()
    made.add_device()
    made.add_trace(kind="metrics", tool="ncu")
    made.add_kernel(None, None, "work", duration_ns=100, **FEW_WARPS)
    assert row_of(made, "OCC01")["verdict"] == "finding"
    assert row_of(made, "OCC02")["verdict"] == "pass"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocks", "filled", "expected"),
    [
        (60, 60.0, "finding"),  # 1.2 of 2 waves of 50 blocks
        (80, 80.0, "pass"),
        (79, 79.0, "finding"),
        (100, 100.0, "pass"),
        (30, 60.0, "finding"),
        (201, None, "pass"),  # above four waves
        (25, None, "pass"),  # one block per SM, as persistent kernels have
    ],
)
def test_a_last_wave_that_fills_little(blocks: int, filled: float | None, expected: str) -> None:
    row = row_of(training(row=launch(blocks)), "OCC02")
    assert row["verdict"] == expected
    if expected == "finding":
        assert (row["value"], row["threshold"]) == (pytest.approx(filled), 80)
        assert f"work (40.0 % of the time, {blocks / 50:.2f} waves)" in row["reason"]
        assert row["severity"] == "note"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["persistent_sum", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"])
def test_kernels_with_a_fixed_number_of_blocks_have_no_tail(name: str) -> None:
    assert row_of(training(name, launch(60)), "OCC02")["verdict"] == "pass"


@pytest.mark.parametrize(
    "options", [{"min_share_pct": 41}, {"waves_enough": 1.1}, {"min_wave_pct": 50}]
)
def test_the_thresholds_of_waves(options: dict[str, Any]) -> None:
    assert row_of(training(row=launch(60)), "OCC02", **options)["verdict"] == "pass"
