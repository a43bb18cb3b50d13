"""The CSV readers on real output, against the files themselves and their database siblings."""

from __future__ import annotations

import contextlib
import csv
import json
import sqlite3
import struct
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from corpus import corpus_file, corpus_files, corpus_folder
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sources.base import Source, TraceDescription
from tbd_trace.sources.ncu.reader import NSIGHT_COMPUTE_CSV
from tbd_trace.sources.nvprof.csv_reader import NVPROF_CSV

NCU = "ncu/chia7_ece408_project__analysis_file"
_SECONDS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_BYTES = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_SCALES = {
    "Mbyte": 1e6, "Gbyte": 1e9, "Gbyte/second": 1e9, "msecond": 1e6, "cycle/usecond": 1e6,
    "cycle/nsecond": 1e9, "sector/usecond": 1e6, "sector/nsecond": 1e9,
}  # fmt: skip
_PRINTED = 0.5e-6  # half of the last of six printed decimals


class Trace:
    """Tables of one file in DuckDB."""

    def __init__(self, source: Source, path: Path, connection: duckdb.DuckDBPyConnection) -> None:
        assert source.detect(path, path.read_bytes()[:65_536])
        self._connection = connection
        with source.open(path) as reader:
            for name, table in canonical_tables().items():
                select = reader.relation(connection, name) or table.empty_select
                connection.execute(f"CREATE OR REPLACE TABLE {name}_ AS {select}")
            self.description: TraceDescription = reader.describe()

    def rows(self, columns: str, rest: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(f"SELECT {columns} FROM {rest}").fetchall()


def _printed_rows(path: Path, first: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Return header, units and rows of the first table, as the csv module reads it."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    at = next(i for i, line in enumerate(lines) if line and line[0] == first)
    header = lines[at]
    width = len(header)
    rest = [line for line in lines[at + 1 :] if len(line) == width]
    return header, rest[0], rest[1:]


def _sibling(path: Path) -> Path | None:
    stem = path.name.split(".")[0]
    names = (f"{stem}.{suffix}" for suffix in ("sql", "nvvp", "nvprof"))
    beside = (corpus_folder("nvprof") / name for name in names)
    return next(filter(Path.is_file, beside), None)


def _database(path: Path) -> Iterator[sqlite3.Connection]:
    sibling = _sibling(path)
    if sibling is None:
        pytest.skip(f"no database beside {path.name}")
    connection = sqlite3.connect(f"file:{sibling}?mode=ro", uri=True)
    yield connection
    connection.close()


@pytest.fixture
def database(path: Path) -> Iterator[sqlite3.Connection]:
    yield from _database(path)


GPU_TRACES = corpus_files("nvprof_csv/*.gpu_trace*.csv")
METRIC_TRACES = corpus_files("nvprof_csv/*.metrics_gpu_trace.csv")


@pytest.mark.parametrize("path", corpus_files("nvprof_csv/*", "ncu/*"))
def test_every_file_is_read_by_its_reader_only(
    path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    sources = (NVPROF_CSV, NSIGHT_COMPUTE_CSV)
    (source,) = [s for s in sources if s.detect(path, path.read_bytes()[:65_536])]
    assert source.format == ("nvprof-csv" if path.parent.name == "nvprof_csv" else "ncu-csv")
    trace = Trace(source, path, connection)
    kind = trace.description.kind
    table = {"timeline": "kernel_", "metrics": "kernel_metric_", "summary": "kernel_metric_"}[kind]
    expected = {"api_trace": "api_call_", "net.summary": "kernel_aggregate_"}
    table = next((name for part, name in expected.items() if part in path.name), table)
    assert trace.rows("count(*)", table)[0][0] > 0
    assert "skipped" not in "; ".join(trace.description.notes)
    assert "cut off" not in "; ".join(trace.description.notes)


@pytest.mark.parametrize("path", corpus_files("odd/*", "nsys/*.sqlite", "nvprof/*", "oracle/*.csv"))
def test_other_files_are_not_detected(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(65_536)
    assert not NVPROF_CSV.detect(path, head)
    assert not NSIGHT_COMPUTE_CSV.detect(path, head)


@pytest.mark.parametrize("path", GPU_TRACES)
def test_gpu_trace_agrees_with_its_file(path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    header, units, rows = _printed_rows(path, "Start")
    printed = [dict(zip(header, row, strict=True)) for row in rows]
    unit = dict(zip(header, units, strict=True))
    trace = Trace(NVPROF_CSV, path, connection)
    kernels = [row for row in printed if row["Grid X"]]
    found = trace.rows("count(*), sum(duration_ns)", "kernel_")[0]
    total = sum(round(float(row["Duration"]) * _SECONDS[unit["Duration"]]) for row in kernels)
    assert found == (len(kernels), total)
    assert trace.rows(
        "grid_x, block_y, correlation_id, stream_id", "kernel_ ORDER BY kernel_id"
    ) == [
        (int(k["Grid X"]), int(k["Block Y"]), int(k["Correlation_ID"]), int(k["Stream"]))
        for k in kernels
    ]
    names = Counter(row["Name"] for row in printed if row["Name"].startswith("["))
    directions = dict(trace.rows("direction, count(*)", "memcpy_ GROUP BY ALL"))
    assert directions == {n[13:-1]: c for n, c in names.items() if n.startswith("[CUDA memcpy")}
    assert trace.rows("count(*)", "memset_")[0][0] == names["[CUDA memset]"]


@pytest.mark.parametrize("path", GPU_TRACES)
def test_gpu_trace_agrees_with_its_database(
    path: Path, connection: duckdb.DuckDBPyConnection, database: sqlite3.Connection
) -> None:
    """Times and sizes agree to the printed precision, so MB means 1024² bytes."""
    header, units, _ = _printed_rows(path, "Start")
    unit = dict(zip(header, units, strict=True))
    trace = Trace(NVPROF_CSV, path, connection)
    activity = "CUPTI_ACTIVITY_KIND_"
    columns = "start, end - start, deviceId, streamId"
    kernels = database.execute(
        f"SELECT {columns}, registersPerThread, staticSharedMemory, dynamicSharedMemory "
        f"FROM {activity}CONCURRENT_KERNEL ORDER BY start, correlationId"
    ).fetchall()
    copies, fills = (
        database.execute(
            f"SELECT {columns}, bytes FROM {activity}{table} ORDER BY start, correlationId"
        ).fetchall()
        for table in ("MEMCPY", "MEMSET")
    )
    zero = min(row[0] for row in kernels + copies + fills)
    step = _PRINTED * _SECONDS[unit["Start"]] + 0.5
    ours = "start_ns, duration_ns, device_id, stream_id"
    shared = ", registers_per_thread, static_shared_bytes, dynamic_shared_bytes"
    for real, rest in (
        (kernels, (shared, "kernel_ ORDER BY kernel_id")),
        (copies, (", bytes", "memcpy_ ORDER BY memcpy_id")),
        (fills, (", bytes", "memset_ ORDER BY memset_id")),
    ):
        found = trace.rows(ours + rest[0], rest[1])
        assert len(found) == len(real)
        assert all(abs(f[0] - (r[0] - zero)) <= step for f, r in zip(found, real, strict=True))
        assert [f[1:-1] for f in found] == [r[1:-1] for r in real]
        size = _PRINTED * _BYTES[unit["Size"]] + 0.5
        assert all(abs(f[-1] - r[-1]) <= size for f, r in zip(found, real, strict=True))


@pytest.mark.parametrize("path", corpus_files("nvprof_csv/*.api_trace.csv"))
def test_api_trace_agrees_with_its_database(
    path: Path, connection: duckdb.DuckDBPyConnection, database: sqlite3.Connection
) -> None:
    trace = Trace(NVPROF_CSV, path, connection)
    real = database.execute(
        "SELECT correlationId, end - start FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY 1"
    ).fetchall()
    found = trace.rows("correlation_id, end_ns - start_ns", "api_call_ ORDER BY 1")
    assert [f[0] for f in found] == [r[0] for r in real]
    assert all(abs(f[1] - r[1]) <= 500 for f, r in zip(found, real, strict=True))
    strings = dict(database.execute("SELECT _id_, value FROM StringTable"))
    ranges: dict[str, list[int]] = defaultdict(list)
    opened: dict[int, tuple[str, int]] = {}
    for flags, time, marker, name in database.execute(
        "SELECT flags, timestamp, id, name FROM CUPTI_ACTIVITY_KIND_MARKER ORDER BY id, flags"
    ):
        if flags == 2:
            opened[marker] = (strings[name], time)
        else:
            text, start = opened.pop(marker)
            ranges[text].append(time - start)
    durations = trace.rows("text, count(*), sum(end_ns - start_ns)", "annotation_ GROUP BY text")
    assert {text: count for text, count, _ in durations} == {t: len(r) for t, r in ranges.items()}
    for text, count, total in durations:
        assert abs(total - sum(ranges[text])) <= 1000 * count
    assert trace.rows("count(*)", "annotation_ WHERE is_open") == [(0,)]


@pytest.mark.parametrize("path", METRIC_TRACES)
def test_metrics_agree_with_their_file(path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    header, units, rows = _printed_rows(path, "Device")
    trace = Trace(NVPROF_CSV, path, connection)
    assert trace.rows("name", "kernel_ ORDER BY kernel_id") == [(row[3],) for row in rows]
    assert trace.rows("count(*)", "kernel_metric_")[0][0] == len(rows) * (len(header) - 5)
    for number, row in enumerate(rows):
        cells = "metric, unit_instance, value, text"
        found = trace.rows(cells, f"kernel_metric_ WHERE kernel_id = {number}")
        by_name = {m if unit is None else f"{m} ({unit})": (v, t) for m, unit, v, t in found}
        for name, unit, printed in list(zip(header, units, row, strict=True))[5:]:
            level = printed.endswith(")")
            number_printed = printed[printed.index("(") + 1 : -1] if level else printed
            expected = float(number_printed) * _BYTES.get(unit.removesuffix("/s"), 1)
            assert by_name[name] == (expected, printed if level else None), name


@pytest.mark.parametrize("path", METRIC_TRACES)
def test_metrics_agree_with_their_database(
    path: Path, connection: duckdb.DuckDBPyConnection, database: sqlite3.Connection
) -> None:
    """Rates of the database are whole bytes per second: GB/s means 1024³ of them."""
    names = json.loads(corpus_file("oracle/nvprof_metric_id_to_name.json").read_text("utf-8"))
    sibling = _sibling(path)
    assert sibling is not None
    by_id = names.get(sibling.name)
    if by_id is None:
        pytest.skip(f"the metric names of {sibling.name} are not known")
    trace = Trace(NVPROF_CSV, path, connection)
    found = {
        (correlation, metric): (value, unit)
        for correlation, metric, value, unit in trace.rows(
            "k.correlation_id, metric, value, unit",
            "kernel_metric_ m JOIN kernel_ k USING (kernel_id) WHERE unit_instance IS NULL",
        )
    }
    compared = 0
    for correlation, metric, blob in database.execute(
        "SELECT correlationId, id, value FROM CUPTI_ACTIVITY_KIND_METRIC"
    ):
        value, unit = found.get((correlation, by_id.get(str(metric))), (None, None))
        if unit in ("count", "byte/s") and value is not None:
            (real,) = struct.unpack("<Q", blob)
            assert (
                abs(value - real) <= _PRINTED * 2**30 + 0.5 if unit == "byte/s" else value == real
            )
            compared += 1
    assert compared > 40


@pytest.mark.slow
@pytest.mark.parametrize("path", corpus_files("nvprof_csv/*.metrics_summary.csv"))
def test_metric_summary_agrees_with_the_metrics_of_kernels(
    path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    single = Trace(
        NVPROF_CSV, path.with_name(path.name.replace("_summary", "_gpu_trace")), connection
    )
    keys = "kernel_name, metric, coalesce(unit_instance, -1)"
    computed = {
        tuple(row[:3]): row[3:]
        for row in single.rows(
            f"{keys}, count(*), min(value), max(value), any_value(unit)",
            "kernel_metric_ GROUP BY ALL",
        )
    }
    trace = Trace(NVPROF_CSV, path, connection)
    found = trace.rows(f"{keys}, instances, value, min_value, max_value, unit", "kernel_metric_")
    assert {tuple(row[:3]) for row in found} == set(computed)
    for *key, instances, value, least, most, unit in found:
        count, low, high, expected_unit = computed[tuple(key)]
        assert (instances, unit) == (count, expected_unit), key
        # one page prints rates in a unit per column, the other in a unit per value
        step = 2 * _PRINTED * (_BYTES["GB"] if unit == "byte/s" else 1)
        assert low - step <= value <= high + step, key
        if least is not None:
            assert abs(least - low) <= step, key
            assert abs(most - high) <= step, key


@pytest.mark.parametrize("path", corpus_files("nvprof_csv/*net.summary.csv"))
def test_summary_agrees_with_its_database(
    path: Path, connection: duckdb.DuckDBPyConnection, database: sqlite3.Connection
) -> None:
    """Without the kernels that the sections of NVTX ranges list again."""
    trace = Trace(NVPROF_CSV, path, connection)
    real = database.execute(
        "SELECT count(*), sum(end - start), min(end - start), max(end - start) "
        "FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL GROUP BY name ORDER BY 2, 1"
    ).fetchall()
    found = trace.rows("instances, total_ns, min_ns, max_ns", "kernel_aggregate_ ORDER BY 2, 1")
    assert [tuple(map(int, row)) for row in found] == real


@pytest.mark.needs("nvprof")
@pytest.mark.parametrize("path", corpus_files("nvprof/[msd]*trace.nvvp", "nvprof/trxe*.nvvp"))
@pytest.mark.parametrize("unit", ["ns", "col"])
def test_what_nvprof_prints_of_a_database(
    path: Path, unit: str, tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    """Both traces in one table, and the summary, as nvprof prints them today."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        kernels, calls = (
            database.execute(
                f"SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_{table}"
            ).fetchone()
            for table in ("CONCURRENT_KERNEL", "RUNTIME")
        )
        drivers = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_DRIVER").fetchone()
    traces, summary = tmp_path / "traces.csv", tmp_path / "summary.csv"
    for out, options in ((traces, ["--print-gpu-trace", "--print-api-trace"]), (summary, [])):
        command = ["nvprof", "-i", str(path), "--csv", "-u", unit, *options, "--log-file", str(out)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    step = 1 if unit == "ns" else 1000
    trace = Trace(NVPROF_CSV, traces, connection)
    assert trace.rows("count(*)", "api_call_") == [(calls[0] + drivers[0],)]
    count, total = trace.rows("count(*), sum(duration_ns)", "kernel_")[0]
    assert count == kernels[0]
    assert abs(total - kernels[1]) <= step * count
    totals = Trace(NVPROF_CSV, summary, connection)
    count, total = totals.rows("sum(instances), sum(total_ns)", "kernel_aggregate_")[0]
    assert count == kernels[0]
    assert abs(total - kernels[1]) <= step * count


@pytest.fixture(scope="module")
def pages() -> dict[str, dict[Any, Any]]:
    """Return the metrics of the same profile as every page prints it."""
    with duckdb.connect() as connection:
        return _metrics_of_pages(connection)


def _metrics_of_pages(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[Any, Any]]:
    found = {}
    for page in ("raw.csv", "raw_unitsbase_fp.csv", "details.csv", "details.console.txt"):
        trace = Trace(NSIGHT_COMPUTE_CSV, corpus_file(f"{NCU}.{page}"), connection)
        found[page] = {
            (kernel, metric): (value, unit, text)
            for kernel, metric, value, unit, text in trace.rows(
                "kernel_id, metric, value, unit, text", "kernel_metric_"
            )
        }
        found[f"{page} kernels"] = {
            row[0]: row[1:]
            for row in trace.rows(
                "kernel_id, name, duration_ns, grid_x * grid_y * grid_z, "
                "block_x * block_y * block_z, registers_per_thread, static_shared_bytes, "
                "process_id, context_id, stream_id",
                "kernel_",
            )
        }
    return found


@pytest.mark.slow
def test_raw_page_agrees_with_its_file(pages: dict[str, dict[Any, Any]], corpus: Path) -> None:
    with (corpus / f"{NCU}.raw_unitsbase_fp.csv").open(newline="") as file:
        header, _, *rows = csv.reader(file)
    printed = [dict(zip(header, row, strict=True)) for row in rows]
    kernels = pages["raw.csv kernels"]
    assert {k: (row[0], row[1]) for k, row in kernels.items()} == {
        int(row["ID"]): (row["Kernel Name"], int(float(row["gpu__time_duration.sum"])))
        for row in printed
    }
    metrics = [name for name in header[8:] if not name.startswith("device__attribute_")]
    found = pages["raw_unitsbase_fp.csv"]
    assert len(found) == len(metrics) * len(rows)
    for row in printed:
        for name in metrics:
            value, _, text = found[int(row["ID"]), name]
            if row[name] in ("", "no data"):
                assert (value, text) == (None, row[name] or None), name
            else:
                assert (value, text) == (float(row[name]), None), name


@pytest.mark.slow
def test_pages_with_and_without_base_units_agree(
    pages: dict[str, dict[Any, Any]], corpus: Path
) -> None:
    """So Gbyte means 10⁹ bytes: the page in base units prints every byte."""
    with (corpus / f"{NCU}.raw.csv").open(newline="") as file:
        header, units = list(csv.reader(file))[:2]
    printed_in = dict(zip(header, units, strict=True))
    raw, base = pages["raw.csv"], pages["raw_unitsbase_fp.csv"]
    assert raw.keys() == base.keys()
    for (kernel, metric), (value, unit, text) in raw.items():
        other, other_unit, other_text = base[kernel, metric]
        assert (unit, text) == (other_unit, other_text), metric
        # whole numbers and two decimals in the one page, up to six decimals in the other
        step = 0.0051 + _PRINTED * _SCALES.get(printed_in[metric], 1.0)
        assert value == other or abs(value - other) <= step, metric


@pytest.mark.slow
def test_details_agree_with_the_raw_page(pages: dict[str, dict[Any, Any]]) -> None:
    """Every label that is translated stands for a metric of the raw page with the same value."""
    raw, details = pages["raw.csv"], pages["details.csv"]
    translated = {key: row for key, row in details.items() if "__" in key[1]}
    assert {metric for _, metric in details} - {metric for _, metric in translated} == {
        "SM Busy",
        "Issue Slots Busy",
    }
    assert translated.keys() <= raw.keys()
    for key, (value, unit, _) in translated.items():
        assert unit == raw[key][1], key
        real = raw[key][0]
        digits = 0.00501 * max(1.0, _prefix(real, unit))
        assert abs(value - real) <= digits, key


def _prefix(value: float, unit: str | None) -> float:
    """Return the power of 1000 in whose unit Nsight Compute prints a value."""
    scales = unit in ("byte", "byte/s", "ns", "cycle/s", "byte/block")
    return max((s for s in (1.0, 1e3, 1e6, 1e9) if scales and abs(value) >= s), default=1.0)


@pytest.mark.slow
def test_console_agrees_with_the_details_page(pages: dict[str, dict[Any, Any]]) -> None:
    assert pages["details.console.txt"] == pages["details.csv"]
    assert pages["details.console.txt kernels"] == pages["details.csv kernels"]


@pytest.mark.slow
def test_kernels_agree_between_pages(pages: dict[str, dict[Any, Any]]) -> None:
    raw, details = pages["raw.csv kernels"], pages["details.csv kernels"]
    assert raw == pages["raw_unitsbase_fp.csv kernels"]
    assert raw.keys() == details.keys()
    for kernel, (name, duration, *rest) in raw.items():
        assert (name, rest) == (details[kernel][0], list(details[kernel][2:]))
        assert abs(duration - details[kernel][1]) <= 0.00501 * _prefix(duration, "ns")


@pytest.mark.slow
def test_summary_agrees_with_the_raw_page(
    pages: dict[str, dict[Any, Any]], connection: duckdb.DuckDBPyConnection, corpus: Path
) -> None:
    path = corpus / f"{NCU}.details_summary_per_kernel.csv"
    trace = Trace(NSIGHT_COMPUTE_CSV, path, connection)
    totals: dict[str, list[int]] = defaultdict(list)
    for name, duration, *_ in pages["raw.csv kernels"].values():
        totals[name].append(duration)
    found = trace.rows("name, instances, total_ns, min_ns, max_ns", "kernel_aggregate_")
    assert {row[0] for row in found} == set(totals)
    for name, instances, total, least, most in found:
        durations = totals[name]
        assert (instances, least, most) == (len(durations), min(durations), max(durations))
        assert int(total) == sum(durations)


@pytest.mark.slow
def test_device_of_the_raw_page(connection: duckdb.DuckDBPyConnection, corpus: Path) -> None:
    """As nvprof describes the same product (TITAN V) in another profile."""
    Trace(NSIGHT_COMPUTE_CSV, corpus / f"{NCU}.raw.csv", connection)
    database = sqlite3.connect(
        f"file:{corpus / 'nvprof/esarmstrong_ece408__forward1_analysis.nvprof'}?mode=ro", uri=True
    )
    real = database.execute(
        "SELECT numMultiprocessors, coreClockRate * 1000, globalMemoryBandwidth * 1000, "
        "l2CacheSize, maxWarpsPerMultiprocessor, maxBlocksPerMultiprocessor, "
        "maxSharedMemoryPerMultiprocessor, maxRegistersPerMultiprocessor, maxThreadsPerBlock, "
        "computeCapabilityMajor || '.' || computeCapabilityMinor FROM CUPTI_ACTIVITY_KIND_DEVICE"
    ).fetchall()
    database.close()
    found = connection.execute(
        "SELECT sm_count, clock_hz, memory_bandwidth_bytes_per_s, l2_bytes, max_warps_per_sm, "
        "max_blocks_per_sm, max_shared_bytes_per_sm, max_registers_per_sm, max_threads_per_block, "
        "compute_capability FROM device_"
    ).fetchall()
    assert found == real
    assert connection.execute("SELECT device_id, name FROM device_").fetchall() == [(0, "TITAN V")]
