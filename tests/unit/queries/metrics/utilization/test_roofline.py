"""roofline: what kernels and layers achieve, and when it does not say."""

from __future__ import annotations

from typing import Any

import pytest

from made_trace import MadeTrace, Row, metric, relation

READ, WRITE, BOTH = (f"dram__bytes{way}.sum" for way in ("_read", "_write", ""))
PEAK = 100e9  # FLOP/s of the made device
BANDWIDTH = 10e9  # byte/s: the ridge is at 10 FLOP/byte


def launched(
    made: MadeTrace, name: str, flop: float | None, read: float | None, write: float | None,
    *, took: int = 1000, **row: Any,
) -> int:  # fmt: skip
    """Add a kernel with counters of its FP32 additions and of its traffic, each if it is known."""
    start = 10_000 * made.next_id()
    kernel = made.launch(start, start + 10, start + 10 + took, name, **row)
    for counter, value in (
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", flop),
        ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", None if flop is None else 0),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", None if flop is None else 0),
        (READ, read),
        (WRITE, write),
    ):
        if value is not None:
            made.add_metric(kernel, counter, value)
    return kernel


def traced(**device: Any) -> MadeTrace:
    made = MadeTrace()
    made.add_device(**({"memory_bandwidth_bytes_per_s": int(BANDWIDTH)} | device))
    return made


def found(made: MadeTrace, **parameters: Any) -> dict[str, Row]:
    return {row["kernel_name"]: row for row in metric(made, "roofline", **parameters)}


@pytest.mark.slow
def test_kernels_under_the_roof() -> None:
    made = traced()
    launched(made, "multiply", 40_000, 500, 300)  # 40 FLOP/ns at 50 FLOP/byte
    launched(made, "multiply", 20_000, 500, 300)
    launched(made, "add", 2_000, 3_000, 1_000, took=800)  # 2.5 FLOP/ns at 0.5, 5 bytes/ns
    rows = found(made)
    multiply, add = rows["multiply"], rows["add"]
    assert (multiply["kernels"], multiply["flop"], multiply["dram_bytes"]) == (2, 60_000, 1600)
    assert multiply["arithmetic_intensity"] == 37.5
    assert multiply["achieved_flops"] == pytest.approx(30e9)
    assert (multiply["peak_flops"], multiply["attainable_flops"]) == pytest.approx((PEAK, PEAK))
    assert multiply["attained_pct"] == pytest.approx(30)
    assert multiply["bandwidth_pct"] == pytest.approx(8)
    assert (multiply["bound"], multiply["evidence"], multiply["reason"]) == (
        "compute", "counter", None
    )  # fmt: skip
    assert add["attainable_flops"] == pytest.approx(5e9)
    assert add["attained_pct"] == pytest.approx(50)
    assert add["bandwidth_pct"] == pytest.approx(50)
    assert add["bound"] == "memory"
    assert [row["covered_pct"] for row in rows.values()] == [100, 100]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flop", "read", "took", "reason"),
    [
        (200_000, 1_000, 1000, "above the physical peak (200.0 %): FLOP, peak or times are wrong"),
        (10, 20_000, 1000,
         "above the physical bandwidth (200.0 %): bytes, bandwidth or times are wrong"),
        (10, 0, 1000, "no traffic of device memory: the caches served it all"),
        (10, None, 1000, "bytes unknown: the traffic of device memory was not counted"),
        (10, 10, 0, "the durations of the kernels are unknown"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_not_given(
    flop: float, read: float | None, took: int, reason: str
) -> None:
    made = traced()
    launched(made, "other", 10, 10, 10)
    launched(made, "odd", flop, read, 0 if read is not None else None, took=took)
    row = found(made)["odd"]
    assert row["reason"] == reason
    for column in ("arithmetic_intensity", "achieved_flops", "attainable_flops", "attained_pct",
                   "bandwidth_pct", "bound"):  # fmt: skip
        assert row[column] is None


@pytest.mark.slow
def test_part_of_the_executions_does_not_stand_for_all() -> None:
    made = traced()
    launched(made, "k", 1000, 100, 100, took=900)
    launched(made, "k", 1000, 100, None, took=100)  # half the traffic is none
    row = found(made)["k"]
    assert (row["kernels"], row["covered_pct"]) == (1, 90)
    assert row["reason"] == "counters cover only 90.0 % of the kernel time"
    assert row["achieved_flops"] is None


@pytest.mark.slow
def test_without_peak_or_bandwidth_there_is_a_point_but_no_roof() -> None:
    for device, why in (
        ({"sm_count": None}, "peak of this device unknown: no roof"),
        ({"memory_bandwidth_bytes_per_s": None}, "bandwidth of this device unknown: no roof"),
    ):
        made = traced(**device)
        launched(made, "k", 1000, 100, 100)
        row = found(made)["k"]
        assert (row["arithmetic_intensity"], row["achieved_flops"]) == pytest.approx((5, 1e9))
        assert (row["attainable_flops"], row["attained_pct"], row["bound"]) == (None, None, None)
        assert row["reason"] == why


@pytest.mark.slow
def test_kernels_that_do_no_flop_use_bandwidth_alone() -> None:
    made = traced()
    launched(made, "copy", 0, 4_000, 4_000)
    row = found(made)["copy"]
    assert (row["precision"], row["arithmetic_intensity"], row["attained_pct"]) == ("fp32", 0, None)
    assert (row["bandwidth_pct"], row["bound"]) == (pytest.approx(80), "memory")


@pytest.mark.slow
def test_pipes_without_flop_are_named() -> None:
    made = traced()
    kernel = launched(made, "gemm", 0, 400, 400)
    made.add_metric(kernel, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 60.0)
    (row,) = metric(made, "roofline")
    assert (row["precision"], row["kernels"], row["flop"]) == ("tensor", 0, None)
    assert row["reason"] == "FLOP unknown: only the use of the pipe was measured"


@pytest.mark.slow
def test_layers_have_a_row_per_kind_of_evidence() -> None:
    made = traced()
    made.add_trace(batch_size=2)
    made.add_layer("fc", forward_flop=30_000.0, backward_flop=0.0)
    for number in range(4):
        start = 100_000 * number
        made.add_range(start, start + 90_000, f"iteration {number}")
        made.add_range(start + 10, start + 500, "layer:fc")
        kernel = made.launch(start + 20, start + 100, start + 1100, "gemm")
        made.add_metric(kernel, "flop_count_sp", 50_000)
        made.add_metric(kernel, "dram_read_transactions", 20)
        made.add_metric(kernel, "dram_write_transactions", 30)
    rows = metric(made, "roofline", by="layer")
    kernels = rows[0]["kernels"]
    assert [(r["layer"], r["evidence"], r["flop"]) for r in rows] == [
        ("fc", "counter", 50_000 * kernels), ("fc", "modelled", 60_000 * kernels)
    ]  # fmt: skip
    assert {r["dram_bytes"] for r in rows} == {50 * 32 * kernels}
    assert [r["achieved_flops"] for r in rows] == pytest.approx([50e9, 60e9])
    assert [r["evidence"] for r in metric(made, "roofline")] == ["counter"]


def test_traffic_is_that_of_one_tool_and_one_way_to_count() -> None:
    made = traced()
    made.add_metric(1, "dram_read_bytes", 5)
    made.add_metric(1, "dram_write_bytes", 6)
    made.add_metric(1, "dram_read_transactions", 1)
    made.add_metric(1, "dram_write_transactions", 1)
    made.add_metric(2, "dram_read_transactions", 2)
    made.add_metric(2, "dram_write_transactions", 3)
    made.add_metric(3, "dram_read_bytes", 5)  # and no writes
    made.add_metric(4, READ, 7)
    made.add_metric(4, BOTH, 9)
    made.add_metric(5, "dram__sectors_read.sum", 1)
    made.add_metric(5, "dram__sectors_write.sum", 2)
    for kernel in range(1, 6):
        made.add_kernel(kernel, kernel + 1, kernel_id=kernel)
    rows = relation(made, "kernel_traffic")
    assert {row["kernel_id"]: row["dram_bytes"] for row in rows} == {1: 11, 2: 160, 4: 9, 5: 96}
