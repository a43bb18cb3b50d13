"""Classes of kernel names: the table, its priorities, and other profilers' opinions."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from corpus import ROOT, corpus_file, corpus_files, matching
from fast import one_in
from relations import canonical, data, derive, documented_columns, insert, rows

CLASSES = {
    "CONV", "FFT", "GEMM", "RNN", "activation", "attention", "autotuning", "batchnorm",
    "communication", "data loading", "detection", "dropout", "elementwise", "embedding",
    "indexing", "layernorm", "loss", "memory", "mixture of experts", "optimizer", "pooling",
    "quantization", "random", "reduction", "resampling", "softmax", "sort",
}  # fmt: skip
DIRECTIONS = {"forward", "backward", "backward data", "backward weights"}
ATTRIBUTES = ("class", "direction", "tensor_core")


@pytest.fixture
def names(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    canonical(connection, "kernel", "kernel_aggregate")
    data(connection, "kernel_classes")
    return connection


def table() -> list[dict[str, str]]:
    with (ROOT / "data" / "kernel_classes.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def classify(
    connection: duckdb.DuckDBPyConnection, wanted: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Return the classification of kernel names, by name."""
    connection.execute("DELETE FROM kernel")
    insert(
        connection,
        "kernel",
        [{"trace_id": "t", "kernel_id": i, "name": name} for i, name in enumerate(wanted)],
    )
    derive(connection, "kernel_class")
    return {row["name"]: row for row in rows(connection, "FROM kernel_class")}


def expected(name: str) -> dict[str, str | None]:
    """Return the same by Python's regular expressions, attribute by attribute."""
    found: dict[str, str | None] = dict.fromkeys(ATTRIBUTES)
    for row in sorted(table(), key=lambda row: int(row["priority"])):
        if re.search(row["pattern"], name):
            found |= {attribute: row[attribute] for attribute in ATTRIBUTES if row[attribute]}
    return found


def test_header_documents_the_columns(names: duckdb.DuckDBPyConnection) -> None:
    (row,) = classify(names, ["k"]).values()
    assert list(row) == documented_columns("derive", "kernel_class")


def test_priorities_are_unique() -> None:
    priorities = Counter(row["priority"] for row in table())
    assert [priority for priority, count in priorities.items() if count > 1] == []
    assert len({row["pattern"] for row in table()}) == len(table())


def test_vocabulary() -> None:
    assert {row["class"] for row in table()} - {""} == CLASSES
    assert {row["direction"] for row in table()} - {""} == DIRECTIONS
    assert {row["tensor_core"] for row in table()} - {""} == {"true", "false"}
    for row in table():
        assert row["comment"]
        assert any(row[attribute] for attribute in ATTRIBUTES)


@pytest.mark.slow
def test_every_row_wins_its_example(names: duckdb.DuckDBPyConnection) -> None:
    found = classify(names, {row["example"] for row in table()})
    for row in table():
        winner = found[row["example"]]
        assert re.search(row["pattern"], row["example"]), row["pattern"]
        if row["class"]:
            assert winner["pattern"] == row["pattern"]
        for attribute in ATTRIBUTES:
            if row[attribute]:
                assert str(winner[attribute]).lower() == row[attribute].lower(), row["pattern"]


@pytest.mark.slow
def test_order_of_the_rows_does_not_matter(names: duckdb.DuckDBPyConnection) -> None:
    examples = {row["example"] for row in table()}
    before = classify(names, examples)
    names.execute(
        "CREATE OR REPLACE TABLE kernel_classes AS FROM kernel_classes ORDER BY md5(pattern)"
    )
    assert classify(names, examples) == before


ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, {}, at::detail::Array<char*, 3> >"


@pytest.mark.parametrize(
    ("name", "kind", "direction", "tensor_core"),
    [
        ("volta_h884gemm_128x128_ldg8_tn", "GEMM", None, True),
        ("volta_sgemm_64x32_sliced1x4_tn", "GEMM", None, False),
        ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", "GEMM", None, False),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_"
         "tensor16x8x16_execute_kernel__5x_cublas", "GEMM", None, True),
        ("void magma_sgemmEx_kernel<float, float, float, false, false>(int)", "GEMM", None, False),
        ("triton_gemm_dot_12", "GEMM", None, None),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688dgrad_optimized_tf32_128x128_16x4>()",
         "CONV", "backward data", True),
        ("void cudnn::cnn::wgrad2d_grouped_direct_kernel<float, float, float>()", "CONV",
         "backward weights", False),
        ("sm86_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_"
         "tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn", "CONV",
         "backward weights", True),
        ("turing_scudnn_128x64_stridedB_splitK_xregs_large_nn_v1", "CONV", "backward weights",
         False),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>()", "CONV", None,
         False),
        ("_Z19LSTM_elementWise_fpIfffL18cudnnRNNBiasMode_t2EEviiii", "RNN", "forward", None),
        ("void RNN_blockPersist_bp_LSTM_HMMA<__half, __half, float, 1>()", "RNN", "backward", True),
        ("void persistRNN_addBias<float, float>(float*)", "RNN", None, None),
        ("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>()",
         "attention", "backward", True),
        ("cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3", "attention",
         "forward", True),
        ("fmha_cutlassB_f16_aligned_64x64_k64_sm80()", "attention", "backward", None),
        ("void scaled_upper_triang_masked_softmax_warp_forward<__half, __half, float, 10>()",
         "softmax", "forward", None),
        ("void tensorflow::functor::BatchNormKernel<float>()", "batchnorm", None, None),
        ("void (anonymous namespace)::cuComputePartGradGammaBeta<float, float, float>()",
         "layernorm", None, None),
        ("void at::native::(anonymous namespace)::conv_depthwise2d_backward_kernel<3, 1>()",
         "CONV", "backward", None),
        ("void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::SGDMomKernel, float*>(int)",
         "optimizer", None, None),
        ("void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::mshadow_op::relu>(int)",
         "activation", None, None),
        ("void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::mshadow_op::plus>(int)",
         "elementwise", None, None),
        ("void tensorflow::functor::RowReduceKernel<float const*, float*, cub::Sum>()",
         "reduction", None, None),
        ("void tensorflow::BiasGradNCHW_SharedAtomics<float>()", "elementwise", "backward", None),
        ("Relu_GPU_DT_FLOAT_DT_FLOAT_kernel", "activation", None, None),
        ("AddV2_GPU_DT_FLOAT_DT_FLOAT_kernel", "elementwise", None, None),
        ("loop_add_fusion_3", "elementwise", None, None),
        ("input_reduce_fusion_7", "reduction", None, None),
        ("wrapped_transpose", "memory", None, None),
        ("triton_softmax_5", "softmax", None, None),
        ("triton_poi_fused_native_layer_norm_softmax_convolution_2", "elementwise", None, None),
        ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>()",
         "optimizer", None, None),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "communication", None, None),
        (ELEMENTWISE.format("at::native::CUDAFunctor_add<float>"), "elementwise", None, None),
        (ELEMENTWISE.format("at::native::(anonymous namespace)::GeluCUDAKernelImpl"),
         "activation", None, None),
        (ELEMENTWISE.format("at::native::bfloat16tofloat32_copy_kernel_cuda"), "memory", None,
         None),
        ("void gemvNSP_kernel<float, float, float, 1, 32, 4, 1024, cublasGemvParams<"
         "cublasGemvTensorStridedBatched<float> > >()", "GEMM", None, False),
        ("void spRadix0032B::kernel1Mem<unsigned int, float, 0>()", "FFT", None, None),
        ("my_own_kernel(float*, int)", "other", None, None),
    ],
)  # fmt: skip
def test_names_of_the_field(
    names: duckdb.DuckDBPyConnection,
    name: str,
    kind: str,
    direction: str | None,
    tensor_core: bool | None,
) -> None:
    row = classify(names, [name])[name]
    assert (row["class"], row["direction"], row["tensor_core"]) == (kind, direction, tensor_core)
    assert (row["pattern"] is None) == (kind == "other")


def test_names_of_summaries_and_of_several_traces(names: duckdb.DuckDBPyConnection) -> None:
    insert(
        names,
        "kernel_aggregate",
        [
            {"trace_id": "s", "name": "volta_sgemm_128x64_nn", "instances": 3, "total_ns": 9},
            {"trace_id": "s", "name": "mine", "instances": 1, "total_ns": 1},
        ],
    )
    classify(names, ["mine", "mine"])
    found = rows(names, "SELECT trace_id, name, class FROM kernel_class ORDER BY ALL")
    assert [tuple(row.values()) for row in found] == [
        ("s", "mine", "other"),
        ("s", "volta_sgemm_128x64_nn", "GEMM"),
        ("t", "mine", "other"),
    ]


@cache
def kineto_kernels() -> set[tuple[str, str]]:
    """Return the kernel names of a PyTorch trace, each with the operator that launched it."""
    found = set()
    for path in matching("kineto/pytorch_kineto*workers_0*"):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        events = trace if isinstance(trace, list) else trace["traceEvents"]
        of_kind: dict[str, list[dict[str, Any]]] = {"operator": [], "kernel": []}
        for event in events:
            of_kind.setdefault(str(event.get("cat")).lower(), []).append(event)
        operators = {event["args"]["External id"]: event["name"] for event in of_kind["operator"]}
        found |= {
            (event["name"], operators.get(event["args"]["external id"], ""))
            for event in of_kind["kernel"]
        }
    return found


@pytest.mark.parametrize(
    "path",
    one_in(
        8, corpus_files(*(f"nsys/{who}*" for who in ("NERSC", "Raphael", "Ginda", "zx3", "yyhtbs")))
    ),
)
def test_networks_are_classified_to_the_last_kernel(
    names: duckdb.DuckDBPyConnection, path: Path
) -> None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        found = file.execute(
            "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel"
            " JOIN StringIds ON StringIds.id = kernel.demangledName"
        ).fetchall()
    classified = classify(names, [name for (name,) in found])
    assert len(classified) == len(found)
    assert [name for name, row in classified.items() if row["class"] == "other"] == []


@pytest.mark.slow
@pytest.mark.needs("corpus")
def test_pytorchs_operators_agree(names: duckdb.DuckDBPyConnection) -> None:
    helpers = {"GEMM", "memory", "elementwise"}  # what convolutions by Winograd and FFT are made of
    allowed: dict[str, tuple[set[str], set[str | None]]] = {
        "aten::cudnn_convolution": ({"CONV", *helpers}, {None, "forward"}),
        "aten::cudnn_convolution_backward_input": ({"CONV", *helpers}, {None, "backward data"}),
        "aten::cudnn_convolution_backward_weight": ({"CONV", *helpers}, {None, "backward weights"}),
        "aten::cudnn_batch_norm": ({"batchnorm"}, {"forward"}),
        "aten::cudnn_batch_norm_backward": ({"batchnorm"}, {"backward"}),
        "aten::max_pool2d_with_indices": ({"pooling"}, {"forward"}),
        "aten::max_pool2d_with_indices_backward": ({"pooling"}, {"backward"}),
        "aten::threshold_": ({"activation"}, {None}),
        "aten::add_": ({"elementwise"}, {None}),
        "aten::mm": ({"GEMM"}, {None}),
        "aten::mean": ({"reduction"}, {None}),
        "aten::_log_softmax": ({"softmax"}, {"forward"}),
        "aten::nll_loss_backward": ({"loss"}, {"backward data"}),
    }
    launched = [pair for pair in kineto_kernels() if pair[1] in allowed]
    assert {operator for _, operator in launched} == set(allowed)
    found = classify(names, {name for name, _ in launched})
    for name, operator in launched:
        classes, directions = allowed[operator]
        assert found[name]["class"] in classes, (operator, name)
        assert found[name]["direction"] in directions, (operator, name)


@pytest.mark.needs("corpus")
def test_pyprofs_directions_agree(names: duckdb.DuckDBPyConnection) -> None:
    path = corpus_file("oracle/josiahdavis_profiling-lm__net.dict.pyprof.txt")
    records = [ast.literal_eval(line) for line in path.read_text().splitlines()]
    assert len(records) == 160
    found = classify(names, {record["kLongName"] for record in records})
    for record in records:
        row = found[record["kLongName"]]
        assert row["class"] != "other"
        if row["direction"] is not None:
            side = "fprop" if row["direction"] == "forward" else "bprop"
            assert record["dir"] == side, record["kLongName"]


@pytest.mark.slow
@pytest.mark.needs("corpus")
def test_priorities_decide_as_in_python(names: duckdb.DuckDBPyConnection) -> None:
    path = corpus_file("oracle/josiahdavis_profiling-lm__net.dict.pyprof.txt")
    wanted = {ast.literal_eval(line)["kLongName"] for line in path.read_text().splitlines()}
    wanted |= {name for name, _ in kineto_kernels()}
    wanted |= {row["example"] for row in table()}
    for name, row in classify(names, wanted).items():
        truth = expected(name)
        assert row["class"] == (truth["class"] or "other"), name
        assert row["direction"] == truth["direction"], name
        assert truth["tensor_core"] in (None, str(row["tensor_core"]).lower()), name
