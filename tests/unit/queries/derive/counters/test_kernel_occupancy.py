"""Occupancy of kernels against the vendor's calculator, other profilers and worked examples."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import corpus_file, corpus_files, reference_file
from fast import examples, one_in
from made_trace import MadeTrace
from relations import canonical, data, derive, documented_columns, insert, metric, rows

NO_LIMIT = 2_147_483_647


def prepare(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    canonical(connection, "trace", "device", "kernel")
    derive(connection, "counter_donor_trace")
    data(connection, "gpu_architectures", "gpu_products")
    connection.execute(
        "CREATE TABLE kernel_counter (trace_id VARCHAR, kernel_id BIGINT, metric VARCHAR,"
        " unit VARCHAR, value DOUBLE, tool VARCHAR, counter_trace_id VARCHAR)"
    )
    return connection


@pytest.fixture
def gpu(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    return prepare(connection)


def device(**columns: Any) -> dict[str, Any]:
    return {"trace_id": "t", "device_id": 0, "process_id": None, **columns}


def a100(**columns: Any) -> dict[str, Any]:
    return device(**{"compute_capability": "8.0", "sm_count": 108, **columns})


def kernel(kernel_id: int = 0, **columns: Any) -> dict[str, Any]:
    """Return a kernel that fills an A100: 256 threads, 32 registers, no shared memory."""
    launch = {"grid_x": 10_000, "block_x": 256, "registers_per_thread": 32}
    ones = {"grid_y": 1, "grid_z": 1, "block_y": 1, "block_z": 1}
    shared = {"static_shared_bytes": 0, "dynamic_shared_bytes": 0}
    key = {"trace_id": "t", "kernel_id": kernel_id, "process_id": 7, "device_id": 0, "name": "k"}
    return key | launch | ones | shared | {"duration_ns": 100} | columns


def occupancy(
    connection: duckdb.DuckDBPyConnection,
    devices: list[dict[str, Any]],
    kernels: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return the occupancy of kernels on devices, in the order of the kernels' ids."""
    connection.execute("DELETE FROM device; DELETE FROM kernel")
    insert(connection, "device", devices)
    insert(connection, "kernel", kernels)
    derive(connection, "device_peak", "kernel_occupancy")
    return rows(connection, "FROM kernel_occupancy ORDER BY trace_id, kernel_id")


def test_headers_document_the_columns(gpu: duckdb.DuckDBPyConnection) -> None:
    found = occupancy(gpu, [a100()], [kernel()])
    assert list(found[0]) == documented_columns("derive", "kernel_occupancy")
    assert list(by_metric(gpu)[0]) == documented_columns("metrics", "occupancy")


def test_vendor_calculator(gpu: duckdb.DuckDBPyConnection) -> None:
    vectors = reference_file("occupancy_vectors.csv")
    gpu.execute(
        "CREATE TABLE vector AS SELECT row_number() OVER () AS id, *"
        f" FROM read_csv('{vectors}', types = {{'cc': 'VARCHAR'}})"
    )
    gpu.execute(
        "INSERT INTO device BY NAME SELECT DISTINCT cc AS trace_id, 0 AS device_id,"
        " cc AS compute_capability FROM vector"
    )
    gpu.execute(
        "INSERT INTO kernel BY NAME SELECT cc AS trace_id, id AS kernel_id, 0 AS device_id,"
        " 'k' AS name, block_threads AS block_x, 1 AS block_y, 1 AS block_z,"
        " regs_per_thread AS registers_per_thread, static_smem AS static_shared_bytes,"
        " dynamic_smem AS dynamic_shared_bytes FROM vector"
    )
    derive(gpu, "device_peak", "kernel_occupancy")
    pairs = {
        "active_blocks_per_sm": "active_blocks",
        "active_warps_per_sm": "active_warps",
        "blocks_by_registers": "limit_regs",
        "blocks_by_shared_memory": "limit_smem",
        "blocks_by_warps": "limit_warps",
        "blocks_by_slots": "limit_blocks",
        "registers_per_block": "alloc_regs_per_block",
        "shared_bytes_per_block": "alloc_smem_per_block",
        "round(theoretical_pct, 4)": "occupancy_pct",
    }
    differing = " OR ".join(f"{ours} IS DISTINCT FROM {theirs}" for ours, theirs in pairs.items())
    joined = "vector LEFT JOIN kernel_occupancy ON kernel_id = id"
    assert rows(gpu, f"FROM {joined} WHERE {differing} LIMIT 5") == []
    assert gpu.sql(f"SELECT count(*) FROM {joined}").fetchall() == [(4257,)]


def test_full_occupancy_and_a_small_grid(gpu: duckdb.DuckDBPyConnection) -> None:
    # 8 warps of 1,024 registers each: 64 warps and 65,536 registers are used up by 8 blocks.
    full, small = occupancy(gpu, [a100()], [kernel(), kernel(1, grid_x=10, grid_y=10)])
    assert (full["active_blocks_per_sm"], full["theoretical_pct"]) == (8, 100)
    assert (full["blocks_by_warps"], full["blocks_by_registers"]) == (8, 8)
    assert full["limiter"] == "warps"  # the first of the two
    assert full["waves"] == pytest.approx(10_000 / (8 * 108))
    assert full["estimated_achieved_pct"] == 100
    assert small["limiter"] == "grid"
    assert small["waves"] == pytest.approx(100 / 864)
    assert small["estimated_achieved_pct"] == pytest.approx(100 / 108 * 256 / 2048 * 100)
    assert small["theoretical_pct"] == 100


def test_limiters(gpu: duckdb.DuckDBPyConnection) -> None:
    launches = [
        {"registers_per_thread": 128},  # 4,096 registers a warp, 16 warps an SM: 2 blocks
        {"dynamic_shared_bytes": 80_000},  # 164 KiB ÷ (80,000 + 1,024) bytes: 2 blocks
        {"block_x": 32, "registers_per_thread": 16},  # 32 block slots before 64 warp slots
        {"block_x": 1024, "registers_per_thread": 32},  # 32 warps: 2 blocks
        {"registers_per_thread": 255, "block_x": 512},  # 131,072 registers: none fits
        {"dynamic_shared_bytes": 166_913},  # a byte more than can be opted in to
    ]
    found = occupancy(gpu, [a100()], [kernel(i, **launch) for i, launch in enumerate(launches)])
    assert [(row["limiter"], row["active_blocks_per_sm"]) for row in found] == [
        ("registers", 2),
        ("shared memory", 2),
        ("blocks", 32),
        ("warps", 2),
        ("registers", 0),
        ("shared memory", 0),
    ]
    assert [row["theoretical_pct"] for row in found] == [25, 25, 50, 100, 0, 0]
    assert [row["estimated_achieved_pct"] for row in found][4:] == [0, 0]
    assert [row["waves"] for row in found][4:] == [None, None]


def test_the_largest_opt_in_fits(gpu: duckdb.DuckDBPyConnection) -> None:
    (row,) = occupancy(gpu, [a100()], [kernel(dynamic_shared_bytes=166_912)])
    assert (row["active_blocks_per_sm"], row["shared_bytes_per_block"]) == (1, 167_936)


def test_a_block_no_pascal_sibling_runs_is_not_admitted(gpu: duckdb.DuckDBPyConnection) -> None:
    # 10 warps of 6,400 registers fit the two halves of GP100, but not four quarters.
    launch = kernel(block_x=320, registers_per_thread=200)
    (row,) = occupancy(gpu, [device(compute_capability="6.0", sm_count=56)], [launch])
    assert (row["active_blocks_per_sm"], row["blocks_by_registers"]) == (0, 0)


def test_missing_stays_null(gpu: duckdb.DuckDBPyConnection) -> None:
    launches: list[dict[str, Any]] = [
        {"registers_per_thread": None},
        {"block_x": None},
        {"dynamic_shared_bytes": None},
        {"grid_x": None},
        {"device_id": 5},
        {"device_id": None},
    ]
    found = occupancy(gpu, [a100()], [kernel(i, **launch) for i, launch in enumerate(launches)])
    assert len(found) == len(launches)
    for row in (*found[:3], *found[4:]):
        for column in ("theoretical_pct", "active_blocks_per_sm", "limiter", "waves"):
            assert row[column] is None
        assert row["estimated_achieved_pct"] is None
    no_grid = found[3]
    assert (no_grid["theoretical_pct"], no_grid["limiter"]) == (100, "warps")
    assert (no_grid["waves"], no_grid["estimated_achieved_pct"]) == (None, None)


def test_unknown_hardware(gpu: duckdb.DuckDBPyConnection) -> None:
    devices = [
        device(trace_id="a", compute_capability="99.0", sm_count=10),
        device(trace_id="b", compute_capability="8.0", sm_count=None),
        device(trace_id="c", name="NVIDIA A100-SXM4-40GB"),
    ]
    future, countless, named = occupancy(gpu, devices, [kernel(trace_id=name) for name in "abc"])
    assert (future["theoretical_pct"], future["estimated_achieved_pct"]) == (None, None)
    assert countless["theoretical_pct"] == 100
    assert (countless["waves"], countless["estimated_achieved_pct"]) == (None, None)
    assert (named["theoretical_pct"], named["waves"]) == (100, pytest.approx(10_000 / 864))


def test_devices_are_numbered_per_process(gpu: duckdb.DuckDBPyConnection) -> None:
    devices = [a100(process_id=1), device(process_id=2, compute_capability="7.5", sm_count=40)]
    kernels = [kernel(0, process_id=1), kernel(1, process_id=2), kernel(2, process_id=3)]
    ampere, turing, stranger = occupancy(gpu, devices, kernels)
    assert ampere["active_blocks_per_sm"] == 8
    assert turing["active_blocks_per_sm"] == 4  # 32 warps
    assert stranger["active_blocks_per_sm"] is None


LAUNCHES = st.lists(
    st.tuples(
        st.sampled_from(["3.5", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0", "12.0"]),
        st.integers(1, 1100),
        st.integers(0, 260),
        st.integers(0, 240_000),
        st.integers(1, 5000),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(launches=LAUNCHES)
def test_properties(launches: list[tuple[str, int, int, int, int]]) -> None:
    devices = [
        device(trace_id=capability, compute_capability=capability, sm_count=50)
        for capability in sorted({launch[0] for launch in launches})
    ]
    kernels: list[dict[str, Any]] = []
    for capability, threads, registers, shared, grid in launches:
        launch = {"trace_id": capability, "block_x": threads, "grid_x": grid}
        launch |= {"registers_per_thread": registers, "dynamic_shared_bytes": shared}
        changes: list[dict[str, int]] = [
            {},
            {"registers_per_thread": registers + 9},
            {"dynamic_shared_bytes": shared + 999},
            {"grid_x": grid * 2},
        ]
        kernels += [kernel(len(kernels) + i, **(launch | c)) for i, c in enumerate(changes)]
    with duckdb.connect() as connection:
        found = occupancy(prepare(connection), devices, kernels)
    by_id = {row["kernel_id"]: row for row in found}
    for number in range(0, len(kernels), 4):
        base, hungrier, larger, wider = (by_id[number + i] for i in range(4))
        assert 0 <= base["theoretical_pct"] <= 100
        assert 0 <= base["estimated_achieved_pct"] <= base["theoretical_pct"]
        assert base["active_blocks_per_sm"] == min(
            base[f"blocks_by_{limit}"] for limit in ("warps", "registers", "shared_memory", "slots")
        )
        assert hungrier["active_blocks_per_sm"] <= base["active_blocks_per_sm"]
        assert larger["active_blocks_per_sm"] <= base["active_blocks_per_sm"]
        assert wider["active_blocks_per_sm"] == base["active_blocks_per_sm"]
        assert wider["estimated_achieved_pct"] >= base["estimated_achieved_pct"]


@pytest.mark.needs("corpus")
def test_nsight_compute_agrees(gpu: duckdb.DuckDBPyConnection) -> None:
    path = corpus_file("ncu/chia7_ece408_project__analysis_file.raw_unitsbase_fp.csv")
    with path.open(newline="") as file:
        measured = [row for row in csv.DictReader(file) if row["ID"]]
    kernels = [
        kernel(
            number,
            grid_x=int(float(row["launch__grid_size"])),
            block_x=int(float(row["launch__block_size"])),
            registers_per_thread=int(float(row["launch__registers_per_thread"])),
            static_shared_bytes=int(float(row["launch__shared_mem_per_block_static"])),
            dynamic_shared_bytes=int(float(row["launch__shared_mem_per_block_dynamic"])),
        )
        for number, row in enumerate(measured)
    ]
    titan = device(name=measured[0]["device__attribute_display_name"])
    for row, ours in zip(measured, occupancy(gpu, [titan], kernels), strict=True):
        assert float(row["sm__maximum_warps_per_active_cycle_pct"]) == ours["theoretical_pct"]
        assert float(row["launch__occupancy_limit_warps"]) == ours["blocks_by_warps"]
        assert float(row["launch__occupancy_limit_registers"]) == ours["blocks_by_registers"]
        assert float(row["launch__occupancy_limit_blocks"]) == ours["blocks_by_slots"]
        waves = float(row["launch__waves_per_multiprocessor"])
        assert waves == pytest.approx(ours["waves"], abs=0.0051)


@pytest.mark.parametrize("path", one_in(8, corpus_files("kineto/AMD*.gz", "kineto/facebook*.gz")))
def test_kineto_agrees(gpu: duckdb.DuckDBPyConnection, path: Path) -> None:
    trace = json.loads(gzip.decompress(path.read_bytes()))
    found = trace.get("deviceProperties") if isinstance(trace, dict) else None
    # Accelerators other than NVIDIA's GPUs have no compute capability.
    found = [one for one in found or [] if "computeMajor" in one]
    if not found:
        pytest.skip("this trace does not describe its GPUs")
    devices = [
        device(
            device_id=one["id"],
            compute_capability=f"{one['computeMajor']}.{one['computeMinor']}",
            sm_count=one["numSms"],
        )
        for one in found
    ]
    column = "est. achieved occupancy %"
    # Kineto takes a launch of more than 48 KiB, which has to be opted in to, for impossible.
    events = [
        event["args"]
        for event in trace["traceEvents"]
        if column in (event.get("args") or {}) and event["args"]["shared memory"] <= 48 * 1024
    ]
    if not events:
        pytest.skip("this trace holds no estimates")
    kernels = [
        kernel(
            number,
            device_id=args["device"],
            registers_per_thread=args["registers per thread"],
            dynamic_shared_bytes=args["shared memory"],
            **dict(zip(("grid_x", "grid_y", "grid_z"), args["grid"], strict=True)),
            **dict(zip(("block_x", "block_y", "block_z"), args["block"], strict=True)),
        )
        for number, args in enumerate(events)
    ]
    for args, ours in zip(events, occupancy(gpu, devices, kernels), strict=True):
        assert float(args[column]) == pytest.approx(ours["estimated_achieved_pct"], abs=1)


def count(
    gpu: duckdb.DuckDBPyConnection, kernel_id: int, metric_name: str, value: float, tool: str
) -> None:
    gpu.execute(
        "INSERT INTO kernel_counter VALUES ('t', ?, ?, NULL, ?, ?, 't')",
        [kernel_id, metric_name, value, tool],
    )


def by_metric(gpu: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return what query occupancy answers once the counters are there."""
    derive(gpu, "achieved_occupancy")
    return metric(gpu, "occupancy")


WARPS_ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"


def test_metric_weights_by_time(gpu: duckdb.DuckDBPyConnection) -> None:
    kernels = [
        kernel(0, duration_ns=300, registers_per_thread=128),  # 25 %
        kernel(1, duration_ns=100),  # 100 %
        kernel(2, duration_ns=200, registers_per_thread=128),
        kernel(3, name="small", grid_x=1, duration_ns=5),
        kernel(4, name="unknown", registers_per_thread=None, duration_ns=50),
    ]
    occupancy(gpu, [a100()], kernels)
    count(gpu, 0, "achieved_occupancy", 0.2, "nvprof")
    count(gpu, 1, "achieved_occupancy", 0.6, "nvprof")
    count(gpu, 1, WARPS_ACTIVE, 80, "ncu")
    count(gpu, 3, "sm_efficiency", 99, "nvprof")
    big, unknown, small = by_metric(gpu)
    assert [row["kernel_name"] for row in (big, unknown, small)] == ["k", "unknown", "small"]
    assert big["theoretical_pct"] == pytest.approx((500 * 25 + 100 * 100) / 600)
    assert big["achieved_pct"] == pytest.approx((300 * 20 + 100 * 80) / 400)
    assert (big["instances"], big["counted_instances"], big["configurations"]) == (3, 2, 2)
    assert (big["limiter"], big["total_ns"], big["evidence"]) == ("registers", 600, "counter")
    assert (big["registers_per_thread"], big["block_threads"]) == (128, 256)
    assert big["waves"] == pytest.approx((500 * 10_000 / 216 + 100 * 10_000 / 864) / 600)
    assert (small["limiter"], small["achieved_pct"], small["evidence"]) == (
        "grid",
        None,
        "modelled",
    )
    assert small["estimated_achieved_pct"] == pytest.approx(1 / 108 * 256 / 2048 * 100)
    assert (unknown["theoretical_pct"], unknown["limiter"]) == (None, None)


def test_metric_by_trace(gpu: duckdb.DuckDBPyConnection) -> None:
    kernels = [
        kernel(0, duration_ns=100, registers_per_thread=128),
        kernel(1, name="other", duration_ns=300),
        kernel(0, trace_id="u", duration_ns=1),
    ]
    occupancy(gpu, [a100()], kernels)
    gpu.execute("SET VARIABLE \"by\" = 'trace'")
    first, second = by_metric(gpu)
    assert (first["trace_id"], first["kernel_name"], first["instances"]) == ("t", None, 2)
    assert first["theoretical_pct"] == pytest.approx((100 * 25 + 300 * 100) / 400)
    assert first["limiter"] == "warps"
    assert (second["trace_id"], second["theoretical_pct"]) == ("u", None)


def test_metric_without_durations(gpu: duckdb.DuckDBPyConnection) -> None:
    kernels = [kernel(0, duration_ns=None), kernel(1, duration_ns=None, registers_per_thread=128)]
    occupancy(gpu, [a100()], kernels)
    (row,) = by_metric(gpu)
    assert row["theoretical_pct"] == pytest.approx((100 + 25) / 2)
    assert row["total_ns"] is None


def test_metric_limiter_ties_by_alphabet(gpu: duckdb.DuckDBPyConnection) -> None:
    kernels = [kernel(0), kernel(1, registers_per_thread=128)]
    occupancy(gpu, [a100()], kernels)
    (row,) = by_metric(gpu)
    assert row["limiter"] == "registers"


def test_no_kernel_limit_is_the_vendors(gpu: duckdb.DuckDBPyConnection) -> None:
    launch = kernel(registers_per_thread=0)
    (row,) = occupancy(gpu, [device(compute_capability="7.0", sm_count=80)], [launch])
    assert (row["blocks_by_registers"], row["blocks_by_shared_memory"]) == (NO_LIMIT, NO_LIMIT)


@pytest.mark.parametrize(
    ("counter", "value", "achieved"),
    [
        ("sm__warps_active.avg.pct_of_peak_sustained_active", 0.0, 0.0),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", 100.0, 100.0),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", 100.0000001, 100.0),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", 100.1, None),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", -1.0, None),
        ("achieved_occupancy", 1.0, 100.0),
        ("achieved_occupancy", 1.5, None),
        ("achieved_occupancy", float("nan"), None),
    ],
)
def test_an_achieved_occupancy_above_the_physical_peak_is_none(
    counter: str, value: float, achieved: float | None
) -> None:
    made = MadeTrace()
    made.add_device()
    kernel = made.add_kernel(100, 200, "work", grid_x=1, grid_y=1, grid_z=1, block_x=32, block_y=1,
        block_z=1)  # fmt: skip
    made.add_metric(kernel, counter, value)
    (found,) = made.connect().metric("occupancy")
    assert found["achieved_pct"] == (achieved and pytest.approx(achieved))
    assert found["evidence"] == ("modelled" if achieved is None else "counter")
