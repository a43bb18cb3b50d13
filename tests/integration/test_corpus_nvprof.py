"""The nvprof reader on every real nvprof database, against plain SQL, nvprof and its own CSV."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
from collections import defaultdict
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import duckdb
import pytest

from corpus import corpus_files, relative
from expectations import expectations
from fast import one_in
from nvtx_views import nvtx_rows
from tbd_trace import resources
from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sources.demangle import can_demangle, demangle, is_mangled, short_name
from tbd_trace.sources.nvprof.reader import NVPROF_SQLITE

FULL = ("nvprof/*",)
EMPTY = ("odd/*.nvvp", "odd/*.nvprof", "odd/josiahdavis_profiling-lm__net.*.sql")
PREFIX = "CUPTI_ACTIVITY_KIND_"
KERNELS = ("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL")
SOURCES = {  # canonical table: raw tables whose rows it holds
    "kernel": KERNELS,
    "memcpy": ("MEMCPY", "MEMCPY2"),
    "memset": ("MEMSET",),
    "synchronization": ("SYNCHRONIZATION",),
    "api_call": ("RUNTIME", "DRIVER"),
}
# nvprof prints utilization levels as "Low (2)" and scales byte/s by powers of 1024.
SCALES = {"": 1.0, "%": 1.0, "B/s": 1.0, "KB/s": 2.0**10, "MB/s": 2.0**20, "GB/s": 2.0**30}

Database = dict[str, list[dict[str, Any]]]


@cache
def read(path: Path) -> Database:
    found: Database = {}
    with NVPROF_SQLITE.open(path) as reader, duckdb.connect() as connection:
        for table in canonical_tables():
            select = reader.relation(connection, table)
            if select is None:
                found[table] = []
                continue
            rows = connection.execute(select)
            names = [column[0] for column in rows.description]
            found[table] = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    return found | nvtx_rows(found["annotation"])


def detected(path: Path) -> bool:
    with path.open("rb") as file:
        return NVPROF_SQLITE.detect(path, file.read(65_536))


def plain(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Ask SQLite itself, without the reader; an absent table has no rows."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return database.execute(statement.replace("$", PREFIX)).fetchall()
    except sqlite3.OperationalError as error:
        assert "no such table" in str(error)
        return []
    finally:
        database.close()


def nvprof_rows(path: Path, directory: Path, option: str) -> list[list[str]]:
    """Return the data rows that NVIDIA's nvprof prints of a file."""
    log = directory / "nvprof.csv"
    arguments = ["--csv", "-u", "ns", "--demangling", "off", "--log-file", str(log)]
    subprocess.run(
        ["nvprof", "-i", str(path), option, *arguments], check=True, capture_output=True, timeout=90
    )
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return list(csv.reader(line for line in lines if line and not line.startswith("=")))


@pytest.mark.parametrize("path", corpus_files(*FULL, *EMPTY))
def test_recognised_by_content(path: Path) -> None:
    assert detected(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", one_in(9, corpus_files(*FULL, *EMPTY)))
def test_counts_and_times_equal_plain_sql(path: Path) -> None:
    tables = read(path)
    for table, kinds in SOURCES.items():
        totals = [
            row
            for kind in kinds
            for row in plain(path, f'SELECT count(*), total("end" - start) FROM ${kind}')
        ]
        durations = [row["end_ns"] - row["start_ns"] for row in tables[table]]
        assert len(durations) == sum(count for count, _ in totals), table
        assert sum(durations) == sum(total for _, total in totals), table


@pytest.mark.parametrize("path", corpus_files(*FULL))
def test_all_tables_share_one_clock_and_one_process(path: Path) -> None:
    tables = read(path)
    times = [row["start_ns"] for table in ("kernel", "api_call") for row in tables[table]]
    if relative(path) in expectations():  # no known file runs for two minutes
        assert max(times) - min(times) < 120e9
    (process,) = {row["process_id"] for row in tables["process"]}
    assert {row["process_id"] for row in tables["kernel"]} == {process}
    threads = {row["thread_id"] for row in tables["thread"]}
    assert {row["thread_id"] for row in tables["api_call"]} <= threads
    assert all(0 <= thread < 1 << 32 for thread in threads)


@pytest.mark.parametrize("path", corpus_files(*FULL))
def test_every_operation_has_one_launching_call(path: Path) -> None:
    tables = read(path)
    calls = defaultdict(list)
    for row in tables["api_call"]:
        calls[row["correlation_id"]].append(row["name"])
    if not calls:  # a run that collected metrics records no calls
        pytest.skip("no API calls in this file")
    # Neither API's correlation ids occur in the other: no call is there twice.
    assert all(len(names) == 1 for names in calls.values())
    for row in tables["kernel"]:
        (launch,) = calls[row["correlation_id"]]
        assert "Launch" in launch


@pytest.mark.parametrize("path", corpus_files(*FULL))
def test_strings_are_those_of_the_file(path: Path) -> None:
    names = {row[0] for kind in KERNELS for row in plain(path, f"""
        SELECT value FROM ${kind} AS k JOIN StringTable AS s ON s._id_ = k.name""")}  # fmt: skip
    rows = read(path)["kernel"]
    assert {row["mangled_name"] or row["name"] for row in rows} == names
    assert all(row["short_name"] and "(" not in row["short_name"] for row in rows)


@pytest.mark.parametrize("path", corpus_files(*FULL))
def test_metric_rows_are_complete_and_named(path: Path) -> None:
    rows = read(path)["kernel_metric"]
    instances = [row for row in rows if row["unit_instance"] is not None]
    (metrics,) = plain(path, "SELECT count(*) FROM $METRIC")
    (parts,) = plain(path, "SELECT count(*) FROM $METRIC_INSTANCE")
    assert (len(rows) - len(instances), len(instances)) == (metrics[0], parts[0])
    assert all(row["value"] is not None and row["unit"] and row["kernel_id"] for row in rows)


def test_metric_names_equal_those_inferred_from_column_order(corpus: Path) -> None:
    with (resources.data() / "nvprof_metrics.csv").open(newline="") as file:
        names = {
            row["id"]: row["name"] for row in csv.DictReader(file) if row["record"] == "metric"
        }
    inferred = json.loads((corpus / "oracle" / "nvprof_metric_id_to_name.json").read_text())
    assert len(inferred) >= 3
    for metrics in inferred.values():
        assert {number: names.get(number) for number in metrics} == metrics


def printed_number(cell: str, unit: str) -> float:
    """Return what nvprof printed in base units: "Low (2)" is 2."""
    text = cell.rsplit("(", 1)[-1].rstrip(")") if "(" in cell else cell
    return float(text) * SCALES[unit]


@pytest.mark.parametrize("printed", corpus_files("nvprof_csv/*.metrics_gpu_trace.csv"))
def test_metric_values_equal_nvprofs_csv(printed: Path, corpus: Path) -> None:
    stem = printed.name.removesuffix(".metrics_gpu_trace.csv")
    rows = read(corpus / "nvprof" / f"{stem}.nvprof")
    correlation = {row["kernel_id"]: row["correlation_id"] for row in rows["kernel"]}
    values = {}
    for row in rows["kernel_metric"]:
        unit = "" if row["unit_instance"] is None else f" ({row['unit_instance']})"
        key = (correlation[row["kernel_id"]], row["metric"] + unit)
        values[key] = row["value"]
    lines = printed.read_text(encoding="utf-8").splitlines()
    # A title, the table, and sometimes further titled tables.
    table = takewhile(lambda line: not line.startswith("="), lines[1:])
    header, units, *data = csv.reader(table)
    first = header.index("Correlation_ID")
    compared = 0
    for line in data:
        for name, unit, cell in zip(
            header[first + 1 :], units[first + 1 :], line[first + 1 :], strict=True
        ):
            found = values[int(line[first]), name]
            # Six decimals are printed, of the scaled number.
            expected = pytest.approx(printed_number(cell, unit), abs=SCALES[unit] * 1e-6)
            assert found == expected, name
            compared += 1
    assert compared == len(values)


def test_josiahdavis_ranges_and_calls_are_on_the_same_threads(corpus: Path) -> None:
    path = corpus / "nvprof" / "josiahdavis_profiling-lm__net.sql"
    tables = read(path)
    assert len(tables["kernel"]) == 160
    assert len(tables["nvtx_range"]) == 683
    assert {(r["kind"], r["is_open"], r["domain_id"]) for r in tables["nvtx_range"]} == {
        ("push_pop", False, 0)
    }
    expected = {
        (start, end, text)
        for start, end, text in plain(
            path,
            """
            SELECT s.timestamp, e.timestamp, t.value FROM $MARKER AS s
            JOIN $MARKER AS e ON e.id = s.id AND e.flags = 4
            JOIN StringTable AS t ON t._id_ = s.name WHERE s.flags = 2""",
        )
    }
    found = {(r["start_ns"], r["end_ns"], r["text"]) for r in tables["nvtx_range"]}
    assert found == expected
    launches = {r["correlation_id"]: r for r in tables["api_call"]}
    inside = 0
    for kernel in tables["kernel"]:
        launch = launches[kernel["correlation_id"]]
        inside += any(
            r["thread_id"] == launch["thread_id"]
            and r["start_ns"] <= launch["start_ns"] <= launch["end_ns"] <= r["end_ns"]
            for r in tables["nvtx_range"]
        )
    assert inside == 160


@pytest.mark.parametrize("path", corpus_files(*EMPTY))
def test_empty_recordings_are_ingested_with_the_reason(path: Path) -> None:
    tables = read(path)
    assert not any(tables[table] for table in SOURCES)
    with NVPROF_SQLITE.open(path) as reader:
        notes = reader.describe().notes
    assert len(notes) == 1
    assert "recorded no" in notes[0]
    assert "profile again" in notes[0]


def test_truncated_file_is_refused(corpus: Path) -> None:
    path = corpus / "odd" / "DERIVED_truncated__josiahdavis_net.sql"
    assert detected(path)
    with pytest.raises(InputError, match="damaged or incomplete"):
        NVPROF_SQLITE.open(path)


@pytest.mark.parametrize("path", corpus_files("nsys/*.sqlite"))
def test_nsys_exports_are_not_taken_for_nvprof(path: Path) -> None:
    assert not detected(path)


@pytest.mark.parametrize("path", corpus_files("nsys/*.sqlite"))
def test_base_names_equal_those_of_nsys(path: Path) -> None:
    """Nsight Systems stores short, demangled and, from 2022.1 on, mangled names side by side."""
    mangled = (
        "mangledName"
        if plain(
            path,
            """
        SELECT 1 FROM pragma_table_info('$KERNEL') WHERE name = 'mangledName'""",
        )
        else "demangledName"
    )
    rows = plain(path, f"""
        SELECT DISTINCT s.value, d.value, m.value FROM $KERNEL AS k
        JOIN StringIds AS s ON s.id = k.shortName
        JOIN StringIds AS d ON d.id = k.demangledName
        JOIN StringIds AS m ON m.id = k.{mangled}""")  # fmt: skip
    for short, demangled, encoded in rows:
        assert short_name(demangled) == short
        assert short_name(encoded) == short
        if can_demangle() and is_mangled(encoded):
            assert short_name(demangle(encoded)) == short


@pytest.mark.parametrize("path", corpus_files(*FULL))
class TestAgainstNvprof:
    """NVIDIA's own tool reads the same files; it needs no GPU for that."""

    pytestmark = pytest.mark.needs("nvprof")

    def test_kernel_totals(self, path: Path, tmp_path: Path) -> None:
        expected: dict[str, tuple[int, int]] = {}
        for row in nvprof_rows(path, tmp_path, "--print-gpu-summary"):
            if row[0] == "GPU activities" and not row[7].startswith("[CUDA mem"):
                # The whole program comes first, then each NVTX range.
                expected.setdefault(row[7], (int(row[3]), round(float(row[2]))))
        if not expected:
            pytest.skip("nvprof prints no times of a run that collected metrics")
        found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for row in read(path)["kernel"]:
            name = row["mangled_name"] or row["name"]
            calls, total = found[name]
            found[name] = (calls + 1, total + row["duration_ns"])
        assert dict(found) == expected

    def test_api_names_and_times(self, path: Path, tmp_path: Path) -> None:
        printed = [
            row
            for row in nvprof_rows(path, tmp_path, "--print-api-trace")
            if len(row) == 4 and row[3].isdigit()
        ]
        expected = {int(row[3]): (row[2], round(float(row[1]))) for row in printed}
        found = {
            row["correlation_id"]: (row["name"], row["end_ns"] - row["start_ns"])
            for row in read(path)["api_call"]
        }
        assert found == expected
