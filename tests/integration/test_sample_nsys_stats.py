"""NVIDIA's own tools read the sample: `nsys stats` reports what the generator put in."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

import nsys_agent
from corpus import ROOT
from nsys_schema import ENUMERATIONS, TABLES
from nsys_writer import create_table
from sample_capture.cnn import small_cnn
from sample_capture.counters import iteration_kernels
from sample_capture.model import Kernel
from sample_capture.training import duration_ns

TIMELINE = ROOT / "data" / "samples" / "synthetic_cnn" / "timeline.sqlite"
ITERATIONS = range(12)
REPORTS = ("gpukernsum", "gpumemtimesum", "nvtxkernsum", "nvtxgpuproj", "cudaapisum")

pytestmark = pytest.mark.needs("nsys")


def nsys(directory: Path, *arguments: str) -> None:
    variables = nsys_agent.environment() | {"HOME": str(directory)}
    done = nsys_agent.nsys(arguments, directory, variables)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, str]]]:
    """Rows of each report on the committed timeline."""
    directory = tmp_path_factory.mktemp("stats")
    shutil.copy(TIMELINE, directory)
    names = ",".join(REPORTS)
    nsys(directory, "stats", "--report", names, "--format", "csv", "--output", ".", TIMELINE.name)
    found = {}
    for report in REPORTS:
        path = directory / f"{TIMELINE.stem}_{report}.csv"
        try:
            with path.open(newline="") as file:
                found[report] = list(csv.DictReader(file))
        except FileNotFoundError:
            pytest.skip(f"this nsys stats has no report {report}")
    return found


def launches() -> list[tuple[int, str, str, Kernel]]:
    """Return iteration, layer, pass and kernel of each launch, as constructed."""
    network = small_cnn()
    found = []
    for i in ITERATIONS:
        for layer in network.layers:
            if i == 0 and layer.search is not None:
                found.append((i, layer.name, "forward", layer.search))
            found += [(i, layer.name, "forward", kernel) for kernel in layer.forward]
            found += [(i, layer.name, "backward", kernel) for kernel in layer.backward]
        found.append((i, "", "optimizer", network.optimizer))
    return found


def test_kernel_summary(reports: dict[str, list[dict[str, str]]]) -> None:
    total: Counter[str] = Counter()
    instances: Counter[str] = Counter()
    for row in reports["gpukernsum"]:  # one row per name and launch configuration
        total[row["Name"]] += int(row["Total Time (ns)"])
        instances[row["Name"]] += int(row["Instances"])
    expected: Counter[str] = Counter()
    for i, _, _, kernel in launches():
        expected[kernel.name] += duration_ns(kernel.base_ns, i)
    assert total == expected
    assert instances == Counter(kernel.name for *_, kernel in launches())


def test_memory_summary(reports: dict[str, list[dict[str, str]]]) -> None:
    found = {
        row["Operation"]: (int(row["Count"]), int(row["Total Time (ns)"]))
        for row in reports["gpumemtimesum"]
    }
    assert found == {
        "[CUDA memcpy HtoD]": (13, 12 * 48_000 + 96_000),
        "[CUDA memcpy DtoH]": (12, 12 * 2_000),
        "[CUDA memset]": (12, 12 * 14_000),
    }


def test_kernels_by_range(reports: dict[str, list[dict[str, str]]]) -> None:
    found: Counter[str] = Counter()
    for row in reports["nvtxkernsum"]:
        found[row["NVTX Range"]] += int(row["Total Time (ns)"])
    expected: Counter[str] = Counter()
    for i, layer, part, kernel in launches():
        time = duration_ns(kernel.base_ns, i)
        if part == "backward":  # on the autograd thread, inside no range of the main thread
            expected[f"tbd_trace:layer_backward:{layer}"] += time
            continue
        expected[f"tbd_trace:iteration {i}"] += time
        phase = "loss" if layer == "loss" else part
        expected[f"tbd_trace:phase:{phase}"] += time
        if layer:
            expected[f"tbd_trace:layer:{layer}"] += time
    assert found == expected


def test_projection_of_ranges(reports: dict[str, list[dict[str, str]]]) -> None:
    """In iteration 6 durations have no jitter, so a range's GPU work can be added up."""
    rows = reports["nvtxgpuproj"]
    start = next(
        int(row["Orig Start (ns)"]) for row in rows if row["Name"] == "tbd_trace:iteration 6"
    )
    end = start + 2_560_000
    projected = {
        row["Name"]: (int(row["Projected Duration (ns)"]), int(row["NumGPUOps"]))
        for row in rows
        if start <= int(row["Orig Start (ns)"]) < end
    }
    assert projected["tbd_trace:layer:block1__conv2.0"] == (400_000, 1)
    assert projected["tbd_trace:layer_backward:block1__conv2.0"] == (440_000 + 1_000 + 480_000, 2)
    assert projected["tbd_trace:layer_backward:pool"] == (14_000 + 1_000 + 24_000, 2)
    assert projected["tbd_trace:layer:fc"] == (12_000 + 1_000 + 4_000, 2)
    assert projected["tbd_trace:phase:data"] == (48_000, 1)
    assert projected["tbd_trace:iteration 6"] == (2_058_500, 14)


def test_api_summary(reports: dict[str, list[dict[str, str]]]) -> None:
    calls = {row["Name"]: int(row["Num Calls"]) for row in reports["cudaapisum"]}
    time = {row["Name"]: int(row["Total Time (ns)"]) for row in reports["cudaapisum"]}
    kernels = len(launches())
    assert calls == {
        "cudaLaunchKernel": kernels,
        "cudaMalloc": 4 + 12,
        "cudaFree": 12,
        "cudaMemcpy": 1,
        "cudaMemcpyAsync": 24,
        "cudaMemsetAsync": 12,
        "cudaStreamSynchronize": 12,
        "cuModuleLoadData": 1,
    }
    assert time["cudaLaunchKernel"] == 6_000 * kernels
    assert time["cudaMalloc"] == 4 * 100_000 + 12 * 400_000
    assert len(iteration_kernels(small_cnn())) * 12 + 1 == kernels


def columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, int, int]]:
    """Return name, type, NOT NULL and primary key of each column."""
    return [
        (name, kind, not_null, key)
        for _, name, kind, not_null, _, key in connection.execute(f"PRAGMA table_info({table})")
    ]


def test_schema_is_that_of_a_real_export(tmp_path: Path) -> None:
    switches = ("-f", "true", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "real")
    nsys(tmp_path, "profile", *switches, "/bin/true")
    # not lazy: tables without rows are made as well
    nsys(tmp_path, "export", "-t", "sqlite", "--lazy=false", "-o", "real.sqlite", "real.nsys-rep")
    real = sqlite3.connect(tmp_path / "real.sqlite")
    query = "SELECT value FROM EXPORT_META_DATA WHERE name = 'EXPORT_SCHEMA_VERSION'"
    if (
        real.execute("SELECT 1 FROM sqlite_master WHERE name = 'EXPORT_META_DATA'").fetchone()
        is None
    ):
        pytest.skip("this nsys writes another generation of the schema")
    if real.execute(query).fetchone() != ("3.0.0",):
        pytest.skip("this nsys writes another version of the schema")
    ours = sqlite3.connect(":memory:")
    for row_class, table in TABLES.items():
        ours.execute(create_table(row_class))
        assert columns(ours, table) == columns(real, table), table
    for table, rows in ENUMERATIONS.items():
        known = set(real.execute(f"SELECT id, name, label FROM {table}"))
        assert not known or set(rows) <= known, table
