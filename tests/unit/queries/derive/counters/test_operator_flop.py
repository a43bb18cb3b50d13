"""FLOP of operators from their shapes: worked examples, PyTorch's own counter, real traces."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from corpus import ROOT, corpus_file_named
from made_kineto import document, kernel, launch, operator, write
from tbd_trace import resources
from tbd_trace.query import sql
from tbd_trace.store import Database

with (ROOT / "data" / "operator_flop_formula.csv").open(newline="") as file:
    FORMULAS = list(csv.DictReader(file))
TYPES = {"float32": "float", "bfloat16": "c10::BFloat16", "float16": "c10::Half"}


def call(
    name: str, ts: int, dims: list[list[int]], values: dict[int, str] | None = None, *,
    of: str = "float32", dur: int = 10, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A call whose values are given by position, from 1."""
    given = values or {}
    count = max(len(dims), *given, 0)
    padded = dims + [[]] * (count - len(dims))
    args = {
        "Input Dims": padded,
        "Input type": [TYPES.get(of, of) if d else "Scalar" for d in padded],
        "Concrete Inputs": [given.get(i + 1, "") for i in range(count)],
    }
    made = operator(name, ts, dur, **(args | more))
    return made


def convolution(stride: str, padding: str, dilation: str, transposed: str) -> dict[int, str]:
    return {4: stride, 5: padding, 6: dilation, 7: transposed, 8: "[0, 0]", 9: "1"}


def flop(folder: Path, events: list[dict[str, Any]], columns: str = "flop") -> list[Any]:
    database = Database(folder / "made.duckdb")
    (report,) = database.ingest([write(folder / "made.json", document(events))])
    statement = f"SELECT {columns} FROM operator_flop ORDER BY start_ns"
    rows = sql(database, statement, [report.trace_id]).rows()
    return [row[0] if len(row) == 1 else row for row in rows]


Q, K = [2, 3, 8, 16], [2, 1, 32, 16]
V = [2, 1, 32, 4]
WORKED = [
    ("aten::mm", [[3, 4], [4, 5]], {}, 2 * 3 * 4 * 5),
    ("aten::addmm", [[5], [3, 4], [4, 5]], {4: "1", 5: "1"}, 120),
    ("aten::bmm", [[7, 3, 4], [7, 4, 5]], {}, 840),
    ("aten::baddbmm", [[7, 3, 5], [7, 3, 4], [7, 4, 5]], {}, 840),
    ("aten::linear", [[7, 3, 4], [5, 4], [5]], {}, 840),
    # Twelve rows, each multiplied with the 4 x 5 matrix of its group.
    ("aten::_grouped_mm", [[12, 4], [3, 4, 5]], {}, 2 * 12 * 4 * 5),
    # 7 x 7 with padding 1, kernel 3, stride 2: 4 x 4 positions.
    ("aten::convolution", [[2, 6, 7, 7], [8, 6, 3, 3]],
     convolution("[2, 2]", "[1, 1]", "[1, 1]", "False"), 2 * 2 * 16 * 8 * 6 * 9),
    # Dilation 2 widens the kernel to 5: 3 x 3 positions; 3 groups: 2 input channels each.
    ("aten::convolution", [[2, 6, 7, 7], [9, 2, 3, 3]],
     convolution("[1, 1]", "[0, 0]", "[2, 2]", "False"), 2 * 2 * 9 * 9 * 2 * 9),
    # Transposed: each of the 5 x 5 input positions meets all weights.
    ("aten::convolution", [[2, 4, 5, 5], [4, 6, 3, 3]],
     convolution("[2, 2]", "[0, 0]", "[1, 1]", "True"), 2 * 2 * 25 * 4 * 6 * 9),
    ("aten::convolution", [[2, 4, 15], [6, 4, 3]],
     convolution("[1]", "[0]", "[1]", "False"), 2 * 2 * 13 * 6 * 4 * 3),
    # Padding comes before stride.
    ("aten::cudnn_convolution", [[2, 6, 7, 7], [8, 6, 3, 3]],
     {3: "[1, 1]", 4: "[2, 2]", 5: "[1, 1]", 6: "1"}, 27_648),
    ("aten::convolution_backward", [[2, 8, 4, 4], [2, 6, 7, 7], [8, 6, 3, 3]],
     {8: "False", 10: "1", 11: "[True, True, False]"}, 2 * 27_648),
    ("aten::convolution_backward", [[2, 8, 4, 4], [2, 6, 7, 7], [8, 6, 3, 3]],
     {8: "False", 10: "1", 11: "[False, True, True]"}, 27_648),
    ("aten::convolution_backward", [[2, 6, 11, 11], [2, 4, 5, 5], [4, 6, 3, 3]],
     {8: "True", 10: "1", 11: "[True, False, False]"}, 21_600),
    # 2 x 3 heads (keys and values have one), 8 queries, 32 keys: q k and p v.
    ("aten::_scaled_dot_product_flash_attention", [Q, K, V], {5: "False"},
     2 * 2 * 3 * 8 * 32 * (16 + 4)),
    # Query i sees keys 1 to i: 36 of 256 pairs.
    ("aten::_scaled_dot_product_flash_attention", [Q, K, V], {5: "True"},
     2 * 2 * 3 * 36 * (16 + 4)),
    # FlashAttention: heads after positions; a window of the last 3 keys has 1 + 2 + 6 x 3 pairs.
    (
        "flash_attn::_flash_attn_forward",
        [[2, 8, 3, 16], [2, 8, 1, 16], [2, 8, 1, 16]],
        {6: "True", 7: "-1", 8: "-1"},
        2 * 2 * 3 * 36 * 32,
    ),
    (
        "flash_attn::_flash_attn_forward",
        [[2, 8, 3, 16], [2, 8, 1, 16], [2, 8, 1, 16]],
        {6: "True", 7: "2", 8: "0"},
        2 * 2 * 3 * 21 * 32,
    ),
    (
        "flashattn::_flash_attn_backward",
        [[2, 8, 3, 16], [2, 8, 3, 16], [2, 32, 1, 16], [2, 32, 1, 16]],
        {12: "False", 13: "-1", 14: "-1"},
        2 * 2 * 3 * 8 * 32 * 16 * 5,
    ),
    # Backward: q k again, then gradients of v and p, q and k.
    ("aten::_scaled_dot_product_efficient_attention_backward", [Q, Q, K, V],
     {12: "False"}, 2 * 2 * 3 * 8 * 32 * (16 + 4 + 4 + 16 + 16)),
]  # fmt: skip


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return FLOP and bytes of the worked examples, in one trace."""
    calls = [
        call(name, 10 + 20 * place, dims, values)
        for place, (name, dims, values, _) in enumerate(WORKED)
    ]
    return flop(tmp_path_factory.mktemp("worked"), calls, "flop, least_bytes")


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(WORKED)))
def test_worked_example(worked: list[Any], place: int) -> None:
    assert len(worked) == len(WORKED)
    assert worked[place][0] == WORKED[place][-1]


@pytest.mark.slow
def test_unknown_values_give_no_number(tmp_path: Path) -> None:
    shapes = [[2, 6, 7, 7], [8, 6, 3, 3]]
    events = [
        operator("aten::convolution", 10, 5, **{"Input Dims": shapes}),
        operator("aten::mm", 20, 5),  # shapes not recorded
        call("aten::mm", 30, [[3, 4], [4, 5]], of="c10::complex<float>"),
        operator("aten::_scaled_dot_product_flash_attention", 50, 3, **{"Input Dims": [Q, K, V]}),
        # Another alignment of the mask: not modelled.
        call(
            "flash_attn::_flash_attn_forward",
            60,
            [[1, 4, 1, 8], *[[1, 9, 1, 8]] * 2],
            {6: "True", 7: "-1"},
            dur=1,
        ),
        operator("aten::mm", 40, 5, **{"Input dims": [[3, 4], [4, 5]], "Input type": []}),
    ]
    assert flop(tmp_path, events, "flop, precision") == [
        (None, None), (120, None), (120, None), (None, None), (None, "float32"),
    ]  # fmt: skip


@pytest.mark.slow
def test_nested_operators_count_once(tmp_path: Path) -> None:
    product = [[3, 4], [4, 5]]
    events = [
        call("aten::linear", 10, [[3, 4], [5, 4]], dur=50),
        call("aten::addmm", 20, [[5], *product], dur=20),
        # The same times: the outer one comes first in the file.
        call("aten::linear", 100, [[3, 4], [5, 4]], of="bfloat16"),
        call("aten::mm", 100, product, of="bfloat16"),
        call("aten::mm", 20, product, dur=20, of="float16") | {"tid": 5},  # another thread
    ]
    found = flop(tmp_path, events, "operator, flop, precision, pass, evidence")
    assert sorted(found) == [
        ("aten::addmm", 120, "float32", "forward", "modelled"),
        ("aten::mm", 120, "bfloat16", "forward", "modelled"),
        ("aten::mm", 120, "float16", "forward", "modelled"),
    ]


@pytest.mark.slow
def test_repeated_work_is_no_work_of_the_model(tmp_path: Path) -> None:
    """A checkpointed product and its attention: forward, repeated, then backward."""
    product, heads = [[3, 4], [4, 5]], [[1, 1, 4, 2]] * 3
    events = [
        call("aten::mm", 10, product, **{"Sequence number": 3}),
        call("aten::_scaled_dot_product_flash_attention", 30, heads, {5: "True"}),
        operator("autograd::engine::evaluate_function: CheckpointFunctionBackward", 100, 800,
                 **{"Sequence number": 4}),
        operator("CheckpointFunctionBackward", 110, 780, **{"Sequence number": 4}),
        operator("aten::linear", 120, 30, **{"Sequence number": 5}),
        call("aten::mm", 125, product),
        operator("MmBackward0", 200, 100, **{"Sequence number": 5}),
        call("aten::mm", 210, product),
        call("aten::_scaled_dot_product_flash_attention_backward", 240, [heads[0], *heads],
             {12: "True"}),
    ]  # fmt: skip
    pairs = 10
    found = flop(tmp_path, events, "pass, flop, full_flop, model_flop, convention")
    assert found == [
        ("forward", 120, 120, 120, "matrix product"),
        ("forward", 2 * pairs * 4, 2 * 16 * 4, 2 * pairs * 4, "attention (causal pairs)"),
        ("recompute", 120, 120, 0, "matrix product"),
        ("backward", 120, 120, 120, "matrix product"),
        ("backward", 2 * pairs * 10, 2 * 16 * 10, 2 * pairs * 8, "attention (causal pairs)"),
    ]


def utilization(folder: Path, events: list[Any], query: str) -> list[dict[str, Any]]:
    path = write(folder / "work.json", document(events))
    with tbd_trace.open(path) as traces:
        return list(traces.query(query).to_dicts())


def work(ts: int, correlation: int, of: str, kernels: dict[str, int]) -> list[dict[str, Any]]:
    """A product of 2 x 1000^3 FLOP with kernels of some durations in us."""
    events = [call("aten::mm", ts, [[1000, 1000], [1000, 1000]], of=of, dur=100)]
    for number, (name, dur) in enumerate(kernels.items()):
        start = ts + 10 + 100 * number
        events += [launch(ts + 10 + 5 * number, correlation + number)]
        events += [kernel(start, dur, correlation + number, name=name)]
    return events


GEMM = "ampere_sgemm_128x64_nn"
TENSOR = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4_tensor16x8x8"


@pytest.mark.slow
def test_utilization_of_each_precision(tmp_path: Path) -> None:
    events = [
        *work(0, 1, "float32", {GEMM: 400}),
        *work(1000, 11, "bfloat16", {"gemm": 30, "splitKreduce_kernel": 10}),
        *work(2000, 21, "float32", {TENSOR: 50}),
        *work(3000, 31, "double", {"dgemm": 500}),
        launch(4000, 41),
        kernel(4010, 10, 41, name="relu"),
    ]
    busy = 400 + 30 + 10 + 50 + 500 + 10
    (fp32,) = utilization(tmp_path, events, "fp32_util")
    # An A100 has 108 SMs at 1,410 MHz with 64 FP32 lanes, and 2048 FLOP a cycle on tensor cores,
    # TF32 half of it.
    peak = 108 * 1410e6 * 128
    assert fp32["evidence"] == "modelled"
    assert fp32["flop"] == pytest.approx(2e9)
    assert fp32["busy_pct"] == pytest.approx(100 * 2e9 / (peak * busy * 1e-6))
    assert fp32["covered_pct"] == pytest.approx(100 * 400 / busy)
    (tensor,) = utilization(tmp_path, events, "tensor_util")
    ideal = 2e9 / (108 * 1410e6 * 2048) + 2e9 / (108 * 1410e6 * 1024)
    assert tensor["flop"] == pytest.approx(4e9)
    assert tensor["busy_pct"] == pytest.approx(100 * ideal / (busy * 1e-6))
    assert tensor["covered_pct"] == pytest.approx(100 * 90 / busy)


@pytest.mark.slow
def test_kernels_of_operators_with_one_kernel_have_their_own_rows(tmp_path: Path) -> None:
    events = [
        *work(0, 1, "bfloat16", {"gemm_a": 30}),
        *work(1000, 11, "bfloat16", {"gemm_b": 30, "splitKreduce_kernel": 10}),
        *work(2000, 21, "bfloat16", {"gemm_b": 30}),
    ]
    path = write(tmp_path / "kernels.json", document(events))
    with tbd_trace.open(path) as traces:
        rows = {r["kernel_name"]: r for r in traces.query("tensor_util", by="kernel").to_dicts()}
        drawn = {r["kernel_name"]: r for r in traces.query("roofline").to_dicts()}
    assert rows.keys() == drawn.keys() == {"gemm_a", "gemm_b"}
    peak = 108 * 1410e6 * 2048
    assert rows["gemm_a"]["busy_pct"] == pytest.approx(100 * 2e9 / (peak * 30e-6))
    assert rows["gemm_b"]["busy_pct"] is None
    assert rows["gemm_b"]["reason"] == "FLOP are known for only 50.0 % of the kernel time"
    point = drawn["gemm_a"]
    # Three matrices of 1000 x 1000 with 2 bytes.
    assert (point["dram_bytes"], point["bytes_evidence"]) == (6_000_000, "modelled")
    assert point["arithmetic_intensity"] == pytest.approx(2e9 / 6e6)
    assert point["achieved_flops"] == pytest.approx(2e9 / 30e-6)
    assert point["bandwidth_pct"] == pytest.approx(100 * 6e6 / 30e-6 / 1555e9)
    assert point["bound"] == "compute"
    assert drawn["gemm_b"]["reason"] == "FLOP and bytes cover only 50.0 % of the kernel time"


BYTES = {
    "aten::mm": 4 * (12 + 20 + 15),
    "aten::addmm": 4 * (12 + 20 + 15),
    "aten::linear": 4 * (84 + 20 + 105),
    "aten::cudnn_convolution": 4 * (2 * 6 * 49 + 8 * 6 * 9 + 2 * 8 * 16),
    # Queries of 8, one head of 32 keys; the result has values of 4.
    "aten::_scaled_dot_product_flash_attention": 4 * (768 + 1024 + 256 + 2 * 3 * 8 * 4),
    # Five tensors are read, and three gradients written.
    "aten::_scaled_dot_product_efficient_attention_backward": 2 * 4 * (768 + 1024 + 256 + 192),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", [place for place, (name, *_) in enumerate(WORKED) if name in BYTES]
)
def test_least_traffic(worked: list[Any], place: int) -> None:
    assert worked[place][1] == BYTES[WORKED[place][0]]


@pytest.mark.slow
def test_a_value_above_the_peak_is_withheld(tmp_path: Path) -> None:
    (row,) = utilization(tmp_path, work(0, 1, "float32", {GEMM: 1}), "fp32_util")
    assert row["busy_pct"] is None
    assert row["reason"].startswith("above the physical peak")


@pytest.mark.slow
def test_tensile_kernels_compute_in_fp32(tmp_path: Path) -> None:
    name = "Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x2x1_SN_1LDSB0_APM1"
    device = {"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4}
    header = {"deviceProperties": [device | {"numSms": 304, "warpSize": 64}]}
    content = document(work(0, 1, "float32", {name: 100}), **header)
    with tbd_trace.open(write(tmp_path / "amd.json", content)) as traces:
        (row,) = traces.query("fp32_util").to_dicts()
    assert row["busy_pct"] == pytest.approx(100 * 2e9 / (163.4e12 * 100e-6))


def test_reader_keeps_each_operator_with_a_formula(tmp_path: Path) -> None:
    events = [operator(row["operator"], 10 * i, 5, **{"Input Dims": [[1]]})
              for i, row in enumerate(FORMULAS)]  # fmt: skip
    assert flop(tmp_path, events, "operator") == [row["operator"] for row in FORMULAS]
    assert "operator_flop_formula" in {path.stem for path in resources.data().glob("*.csv")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "batch", "calls", "expected"),
    [
        # ResNet-18 at 224 x 224: 1.814 GMAC an image, of which the first layer has 0.118 and is
        # not repeated; three steps.
        ("mi300__resnet_act_checkpoint", 10, 3, 2 * 1.814e9),
        # ViT-B/16 at 224 x 224: 17.56 GMAC an image.
        ("h100__Falconsai_nsfw_image_detection__1016002", 4, 1, 2 * 17.56e9),
    ],
)
def test_real_models_have_their_published_flop(
    tmp_path: Path, name: str, batch: int, calls: int, expected: float
) -> None:
    database = Database(tmp_path / "real.duckdb")
    (report,) = database.ingest([corpus_file_named(f"*{name}.json.gz")])
    statement = "SELECT pass, sum(flop) FROM operator_flop GROUP BY pass"
    found = dict(sql(database, statement, [report.trace_id]).rows())
    assert found["forward"] == pytest.approx(batch * calls * expected, rel=2e-3)
    if "recompute" in found:
        first_layer = 2 * 112**2 * 64 * 3 * 49 + 2 * 512 * 1000
        assert found["recompute"] == pytest.approx(
            found["forward"] - batch * calls * first_layer, rel=1e-9
        )
        # Two gradients per weight, one for the first layer.
        assert found["backward"] == pytest.approx(
            2 * found["forward"] - batch * calls * (first_layer - 2 * 512 * 1000), rel=1e-9
        )
