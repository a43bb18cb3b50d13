"""Hardware tables and the peaks derived from them."""

from __future__ import annotations

import csv
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from corpus import ROOT, corpus_files, reference_file
from relations import canonical, data, derive, documented_columns, insert, rows

# Reference product -> a device name as drivers print it.
DEVICE_NAMES = {
    "Quadro P4000": "Quadro P4000",
    "TITAN Xp": "NVIDIA TITAN Xp",
    "GeForce GTX 1080 Ti": "GeForce GTX 1080 Ti",
    "GeForce RTX 2080 Ti": "NVIDIA GeForce RTX 2080 Ti",
    "GeForce RTX 2070": "GeForce RTX 2070",
    "Tesla T4": "Tesla T4",
    "Quadro RTX 5000": "Quadro RTX 5000",
    "Tesla P100-PCIE": "Tesla P100-PCIE-16GB",
    "Tesla V100-SXM2": "Tesla V100-SXM2-16GB",
    "Tesla V100-PCIE": "Tesla V100-PCIE-32GB",
    "A100-SXM4/PCIE": "NVIDIA A100-PCIE-40GB",
    "A10": "NVIDIA A10",
    "GeForce RTX 3090": "NVIDIA GeForce RTX 3090",
    "H100 SXM5": "NVIDIA H100 80GB HBM3",
    "H100 PCIe": "NVIDIA H100 PCIe",
    "H200 SXM": "NVIDIA H200",
    "B200": "NVIDIA B200",
    "GeForce RTX 5090": "NVIDIA GeForce RTX 5090",
}


@pytest.fixture
def hardware(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    canonical(connection, "device")
    data(connection, "gpu_architectures", "gpu_products")
    return connection


def peaks(connection: duckdb.DuckDBPyConnection, *devices: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the peaks of devices given as rows of the device table, in that order."""
    connection.execute("DELETE FROM device")
    defaults = {"trace_id": "t", "process_id": None, "name": None, "compute_capability": None}
    defaults |= {"sm_count": None, "clock_hz": None, "memory_bandwidth_bytes_per_s": None}
    insert(
        connection,
        "device",
        [defaults | {"device_id": number} | device for number, device in enumerate(devices)],
    )
    derive(connection, "device_peak")
    return rows(connection, "FROM device_peak ORDER BY trace_id, device_id, process_id")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float | None:
    """Return a number of the reference tables, where 0 stands for a unit the GPU lacks."""
    return float(text) if text and float(text) else None


def test_header_documents_the_columns(hardware: duckdb.DuckDBPyConnection) -> None:
    assert list(peaks(hardware, {"name": "Tesla T4"})[0]) == documented_columns(
        "derive", "device_peak"
    )


def test_product_names_match_one_row_each() -> None:
    products = table(ROOT / "data" / "gpu_products.csv")
    assert len({row["product"] for row in products}) == len(products)
    own = [row for row in products if row["compute_capability"]]
    for row in own:
        name = re.sub(r"^(NVIDIA |Tesla )+", "", row["example_name"])
        matching = [r["product"] for r in own if re.fullmatch(r["name_pattern"], name)]
        assert matching == [row["product"]]


def test_examples_find_their_row(hardware: duckdb.DuckDBPyConnection) -> None:
    products = table(ROOT / "data" / "gpu_products.csv")
    found = peaks(hardware, *({"name": row["example_name"]} for row in products))
    assert [row["product"] for row in found] == [row["product"] for row in products]


def test_products_are_of_known_architectures() -> None:
    known = {r["compute_capability"] for r in table(ROOT / "data" / "gpu_architectures.csv")}
    used = {r["compute_capability"] for r in table(ROOT / "data" / "gpu_products.csv")}
    assert used - {""} <= known


@pytest.mark.parametrize(
    ("name", "fp16", "fp8", "fp4"),
    [
        # Datasheets, in dense TFLOP/s; an A100 has no FP8.
        ("NVIDIA A100-SXM4-80GB", 312, None, None),
        ("NVIDIA A800-SXM4-80GB", 312, None, None),
        ("NVIDIA H100 80GB HBM3", 989.4, 1978.9, None),
        ("NVIDIA H800", 989.4, 1978.9, None),
        ("NVIDIA H200", 989.4, 1978.9, None),
        ("NVIDIA H20", 148, None, None),
        ("NVIDIA GeForce RTX 4090", 165.2, 330.3, None),
        ("NVIDIA L40S", 362, 733, None),
        ("NVIDIA GeForce RTX 5090", 209.5, 419, 1676),
        ("NVIDIA B200", 2250, 4500, 9000),
        ("NVIDIA GB200", 2500, 5000, 10000),
        ("NVIDIA B300 SXM6 AC", 2250, None, None),
        # A device of MI250 is one of its two dies: half of 362.1.
        ("AMD Instinct MI250", 362.1 / 2, None, None),
        ("AMD Instinct MI300X", 1307.4, 2614.9, None),
        ("AMD Instinct MI300X VF", 1307.4, 2614.9, None),
        ("AMD Radeon Graphics", None, None, None),
    ],
)
def test_dense_tensor_peaks(
    hardware: duckdb.DuckDBPyConnection,
    name: str,
    fp16: float | None,
    fp8: float | None,
    fp4: float | None,
) -> None:
    (found,) = peaks(hardware, {"name": name})
    for column, expected in (("fp16", fp16), ("fp8", fp8), ("fp4", fp4)):
        value = found[f"peak_tensor_{column}_flops"]
        assert (value is None) == (expected is None), column
        if expected is not None:
            assert value / 1e12 == pytest.approx(expected, rel=0.015)


def test_amd_products_have_no_peaks_of_nvidia(hardware: duckdb.DuckDBPyConnection) -> None:
    """ROCm reports 9.0 for an MI210, the number of Hopper; the reader stores NULL."""
    (found,) = peaks(hardware, {"name": "AMD Instinct MI210", "sm_count": 104})
    assert found["compute_capability"] is None
    assert found["peak_tensor_fp16_flops"] == 181e12
    assert found["peak_fp64_flops"] is None
    assert found["peak_fp32_flops"] == 45.3e12
    (half,) = peaks(hardware, {"name": "AMD Instinct MI210", "sm_count": 52})
    assert half["peak_fp32_flops"] == 45.3e12 / 2


@pytest.mark.needs("reference")
def test_peaks_agree_with_datasheets(hardware: duckdb.DuckDBPyConnection) -> None:
    reference = table(reference_file("gpu_products.csv"))
    found = peaks(hardware, *({"name": DEVICE_NAMES[row["gpu"]]} for row in reference))
    for expected, peak in zip(reference, found, strict=True):
        for column, computed, datasheet, error in (
            ("peak_fp32_flops", "computed_fp32_tflops", "datasheet_fp32_tflops", "fp32_err_pct"),
            (
                "peak_tensor_fp16_flops",
                "computed_fp16_tc_tflops",
                "datasheet_fp16_tc_tflops",
                "fp16_err_pct",
            ),
        ):
            value = peak[column]
            assert (value is None) == (number(expected[computed]) is None), expected["gpu"]
            if value is None:
                continue
            assert value / 1e12 == pytest.approx(float(expected[computed]), rel=0.002)
            # The reference marks where the computed peak itself is off the datasheet.
            if expected[datasheet] and abs(float(expected[error])) <= 1:
                assert value / 1e12 == pytest.approx(float(expected[datasheet]), rel=0.01)
        assert peak["sm_count"] == int(expected["sms"])
        assert peak["compute_capability"] == expected["cc"]
        assert peak["clock_hz"] == int(expected["boost_mhz"]) * 1_000_000
        bandwidth = peak["memory_bandwidth_bytes_per_s"]
        assert bandwidth == pytest.approx(float(expected["mem_bw_gb_s"]) * 1e9)


@pytest.mark.needs("reference")
def test_memory_sizes_agree_with_the_reference() -> None:
    products = {row["product"]: row for row in table(ROOT / "data" / "gpu_products.csv")}
    for expected in table(reference_file("gpu_products.csv")):
        name = re.sub(r"^(NVIDIA |Tesla )+", "", DEVICE_NAMES[expected["gpu"]])
        (size,) = {
            row["memory_gib"]
            for row in products.values()
            if row["compute_capability"] and re.fullmatch(row["name_pattern"], name)
        }
        if expected["gpu"].startswith("Tesla V100"):
            assert size == ""  # 16 or 32 GB, which the name states
        else:
            assert size == expected["mem_gb"], expected["gpu"]


@pytest.mark.needs("reference")
def test_throughputs_agree_with_the_programming_guide() -> None:
    ours = {r["compute_capability"]: r for r in table(ROOT / "data" / "gpu_architectures.csv")}
    pairs = {
        "fp32_fma_per_clock": "fp32_fma_lanes_per_sm",
        "fp16_fma_per_clock": "fp16_fma_results_per_clk_sm",
        "bf16_fma_per_clock": "bf16_fma_results_per_clk_sm",
        "fp64_fma_per_clock": "fp64_fma_lanes_per_sm",
        "tensor_fp16_flop_per_clock": "tc_fp16_acc32_flop_clk_sm",
        "tensor_bf16_flop_per_clock": "tc_bf16_flop_clk_sm",
        "tensor_tf32_flop_per_clock": "tc_tf32_flop_clk_sm",
        "tensor_fp8_flop_per_clock": "tc_fp8_acc32_flop_clk_sm",
        "tensor_fp4_flop_per_clock": "tc_fp4_flop_clk_sm",
    }
    for row in table(reference_file("peak_flops.csv")):
        mine = ours[row["cc"]]
        for column, theirs in pairs.items():
            if (row["cc"], column) == ("3.5", "fp64_fma_per_clock"):
                continue  # a property of the product, see gpu_products
            assert number(mine[column]) == number(row[theirs]), (row["cc"], column)
        halved = bool(number(row["tc_fp16_acc32_flop_clk_sm_geforce"]))
        assert mine["tensor_rate_by_product"] == str(halved).lower()


@pytest.mark.needs("reference")
def test_limits_agree_with_the_occupancy_header() -> None:
    ours = {r["compute_capability"]: r for r in table(ROOT / "data" / "gpu_architectures.csv")}
    pairs = {
        "max_threads_per_block": "max_threads_per_block",
        "max_warps_per_sm": "max_warps_per_sm",
        "max_blocks_per_sm": "max_blocks_per_sm",
        "max_registers_per_thread": "max_regs_per_thread",
        "max_registers_per_block": "regs_per_block",
        "registers_per_sm": "regs_per_sm",
        "registers_per_warp_unit": "reg_alloc_unit_regs_per_warp",
        "sub_partitions": "reg_subpartitions",
        "shared_bytes_per_sm": "smem_per_sm_bytes",
        "shared_bytes_per_block_optin": "smem_per_block_optin_bytes",
        "shared_unit_bytes": "smem_alloc_unit_bytes",
        "shared_reserved_bytes_per_block": "reserved_smem_per_block_bytes",
    }
    reference = table(reference_file("occupancy_limits.csv"))
    assert {row["cc"] for row in reference} == set(ours)
    for row in reference:
        for column, theirs in pairs.items():
            assert ours[row["cc"]][column] == row[theirs], (row["cc"], column)


@pytest.mark.parametrize("path", corpus_files("nsys/*.sqlite", "odd/*.sqlite"))
def test_limits_agree_with_what_drivers_report(path: Path) -> None:
    columns = {
        "maxWarpsPerSm": "max_warps_per_sm",
        "maxBlocksPerSm": "max_blocks_per_sm",
        "maxRegistersPerSm": "registers_per_sm",
        "maxShmemPerSm": "shared_bytes_per_sm",
        "maxShmemPerBlockOptin": "shared_bytes_per_block_optin",
    }
    ours = {r["compute_capability"]: r for r in table(ROOT / "data" / "gpu_architectures.csv")}
    names = ", ".join(columns)
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
            found = file.execute(
                f"SELECT computeMajor || '.' || computeMinor, {names} FROM TARGET_INFO_GPU"
            ).fetchall()
    except sqlite3.Error:
        pytest.skip("this export does not describe its GPUs")
    for capability, *limits in found:
        if capability not in ours:
            continue  # not a CUDA device, or not described
        for column, limit in zip(columns.values(), limits, strict=True):
            # One old driver reports 0 blocks.
            assert limit in (0, int(ours[capability][column])), (capability, column)


def test_trace_is_preferred_over_product_table(hardware: duckdb.DuckDBPyConnection) -> None:
    told, silent = peaks(
        hardware,
        {
            "name": "NVIDIA GeForce RTX 3090",
            "compute_capability": "8.6",
            "sm_count": 80,
            "clock_hz": 2_000_000_000,
            "memory_bandwidth_bytes_per_s": 1,
        },
        {"name": "NVIDIA GeForce RTX 3090", "sm_count": 0, "clock_hz": 0},
    )
    assert told["peak_fp32_flops"] == 80 * 128 * 2 * 2_000_000_000
    assert told["peak_tensor_fp16_flops"] == 80 * 512 * 2_000_000_000
    assert (told["clock_source"], told["memory_bandwidth_bytes_per_s"]) == ("trace", 1)
    assert "SM count: trace, clock: trace" in told["evidence"]
    assert (silent["sm_count"], silent["clock_hz"]) == (82, 1_695_000_000)
    assert silent["clock_source"] == "product table"
    assert "SM count: product table" in silent["evidence"]


def test_tensor_clock_follows_the_traces_clock(hardware: duckdb.DuckDBPyConnection) -> None:
    (slow,) = peaks(hardware, {"name": "NVIDIA H200", "sm_count": 132, "clock_hz": 990_000_000})
    assert slow["tensor_clock_hz"] == pytest.approx(915_000_000)
    assert slow["peak_tensor_bf16_flops"] == pytest.approx(132 * 4096 * 915e6)
    assert slow["peak_tensor_tf32_flops"] == pytest.approx(132 * 2048 * 915e6)


def test_tensor_peak_is_a_property_of_the_product(hardware: duckdb.DuckDBPyConnection) -> None:
    given = {"sm_count": 10, "clock_hz": 1_000_000_000}
    split, whole, geforce, quadro, none, reduced = peaks(
        hardware,
        given | {"name": "Graphics Device", "compute_capability": "8.6"},
        given | {"name": "NVIDIA A100-PG509-200", "compute_capability": "8.0"},
        given | {"name": "NVIDIA GeForce RTX 3070 Laptop GPU", "compute_capability": "8.6"},
        given | {"name": "NVIDIA RTX A3000 Laptop GPU", "compute_capability": "8.6"},
        given | {"name": "NVIDIA GeForce GTX 1650", "compute_capability": "7.5"},
        given | {"name": "NVIDIA H20", "compute_capability": "9.0"},
    )
    assert split["peak_tensor_fp16_flops"] is None
    assert split["peak_fp32_flops"] == 10 * 128 * 2 * 1e9
    assert whole["peak_tensor_fp16_flops"] == 10 * 2048 * 1e9
    assert geforce["peak_tensor_fp16_flops"] == 10 * 512 * 1e9
    assert quadro["peak_tensor_fp16_flops"] == 10 * 1024 * 1e9
    assert none["peak_tensor_fp16_flops"] is None  # no tensor cores
    assert none["peak_fp16_flops"] == 10 * 128 * 2 * 1e9
    # The peak of the product, for 10 of its 78 SMs.
    assert reduced["peak_tensor_fp16_flops"] == pytest.approx(148e12 * 10 / 78)
    assert reduced["peak_tensor_tf32_flops"] is None


def test_double_precision(hardware: duckdb.DuckDBPyConnection) -> None:
    kepler, gaming, volta = peaks(
        hardware,
        {"name": "Tesla K20X"},
        {"name": "GeForce GTX 780 Ti"},
        {"name": "Tesla V100-SXM2-32GB"},
    )
    assert kepler["peak_fp64_flops"] == 14 * 64 * 2 * 732e6
    assert gaming["peak_fp64_flops"] == 15 * 8 * 2 * 928e6
    assert volta["peak_fp64_flops"] == 80 * 32 * 2 * 1530e6


def test_a_name_of_another_chip_is_not_believed(hardware: duckdb.DuckDBPyConnection) -> None:
    (peak,) = peaks(hardware, {"name": "Tesla T4", "compute_capability": "8.0"})
    assert (peak["product"], peak["sm_count"], peak["peak_fp32_flops"]) == (None, None, None)


def test_unknown_stays_null(hardware: duckdb.DuckDBPyConnection) -> None:
    nameless, other, future = peaks(
        hardware,
        {},
        {"name": "Intel(R) Iris(R) Xe Graphics"},
        {"compute_capability": "99.0", "sm_count": 1, "clock_hz": 1},
    )
    for peak in (nameless, other):
        known = {name for name, value in peak.items() if value is not None}
        assert known == {"trace_id", "device_id"}
    assert future["peak_fp32_flops"] is None
    assert future["clock_hz"] == 1


def test_one_row_per_device_row(hardware: duckdb.DuckDBPyConnection) -> None:
    found = peaks(
        hardware,
        {"device_id": 0, "process_id": 1, "name": "Tesla T4"},
        {"device_id": 0, "process_id": 2, "name": "Tesla V100-SXM2-16GB"},
        {"device_id": 0, "trace_id": "u", "name": "NVIDIA GeForce RTX 4090"},
    )
    assert [(r["trace_id"], r["process_id"], r["sm_count"]) for r in found] == [
        ("t", 1, 40),
        ("t", 2, 80),
        ("u", None, 128),
    ]
