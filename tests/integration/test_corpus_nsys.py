"""Real Nsight Systems exports against plain SQLite, and against NVIDIA's own statistics."""

from __future__ import annotations

import contextlib
import csv
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from corpus import corpus_files
from fast import first_of_each_format
from nvtx_views import canonical_names, create_views
from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sources.nsys.detection import NSYS_SQLITE
from tbd_trace.sources.nsys.reader import NsysReader

PREFIX = "CUPTI_ACTIVITY_KIND_"
NO_CALLS = "(10, 11, 12, 31, 32, 33, 34, 35, 36, 67, 68, 69)"
OPERATIONS = ("kernel", "memcpy", "memset", "graph_launch")


def is_nsys(path: Path) -> bool:
    with path.open("rb") as file:
        return NSYS_SQLITE.detect(path, file.read(65536))


@contextlib.contextmanager
def ingested(path: Path, *tables: str) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
    """Read canonical tables (all by default) into DuckDB; yield it and the reader's notes."""
    with NSYS_SQLITE.open(path) as reader, duckdb.connect(config={"threads": 2}) as connection:
        for table in canonical_names(tables or canonical_tables()):
            connection.execute(f"CREATE TABLE {table} AS {_rows(reader, connection, table)}")
            if table == "annotation":
                create_views(connection)
        ask = None if tables else (lambda sql: connection.execute(sql).fetchall())
        yield connection, reader.describe(ask).notes


def _rows(reader: NsysReader, connection: duckdb.DuckDBPyConnection, table: str) -> str:
    canonical = canonical_tables()[table]
    select = None if table == "trace" else reader.relation(connection, table)
    if select is None:
        return canonical.empty_select
    return f"{canonical.empty_select} UNION ALL BY NAME FROM ({select})"


class Oracle:
    """The file itself, through the standard library."""

    def __init__(self, path: Path) -> None:
        self.file = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        self.file.text_factory = lambda raw: raw.decode("utf-8", "replace")
        names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        self.tables = {row[0] for row in self.file.execute(names)}

    def row(self, table: str, values: str, rest: str = "") -> tuple[Any, ...]:
        if table not in self.tables:
            return tuple(self.file.execute(f"SELECT {values} FROM {_NOTHING} AS e").fetchone())
        return tuple(self.file.execute(f"SELECT {values} FROM {table} AS e {rest}").fetchone())

    def columns(self, table: str) -> list[str]:
        return [row[1] for row in self.file.execute(f"PRAGMA table_info({table})")]


_NOTHING = (
    "(SELECT 1 AS start, 1 AS end, 1 AS bytes, 1 AS eventClass, 1 AS eventType, "
    "1 AS demangledName, 1 AS correlationId, 1 AS duration WHERE 0)"
)
_NAMED = "LEFT JOIN StringIds AS s ON s.id = "


def one(connection: duckdb.DuckDBPyConnection, statement: str) -> tuple[Any, ...]:
    return tuple(connection.execute(statement).fetchall()[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", first_of_each_format(corpus_files("nsys/*.sqlite", "odd/*.sqlite"), then_one_in=8)
)
def test_agrees_with_the_file(path: Path) -> None:
    if not is_nsys(path):
        pytest.skip("not an Nsight Systems export")
    if "truncated" in path.name:
        with pytest.raises(InputError, match="damaged or incomplete"):
            NSYS_SQLITE.open(path)
        return
    oracle = Oracle(path)
    with ingested(path) as (connection, notes):
        _check_operations(connection, oracle)
        _check_calls(connection, oracle)
        _check_ranges(connection, oracle)
        _check_keys(connection)
        kernels = one(connection, "SELECT count(*) FROM kernel")[0]
    assert kernels or any("no CUDA" in n or "no GPU" in n or "no kernel" in n for n in notes)


def _check_operations(connection: duckdb.DuckDBPyConnection, oracle: Oracle) -> None:
    counted = "count(*), coalesce(sum(end - start), 0)"
    ours = "count(*), coalesce(sum(duration_ns), 0)::BIGINT"
    for table in ("kernel", "memset", "graph_launch"):
        source = PREFIX + {"graph_launch": "GRAPH_TRACE"}.get(table, table.upper())
        assert one(connection, f"SELECT {ours} FROM {table}") == oracle.row(source, counted)
    assert one(
        connection, f"SELECT {ours}, coalesce(sum(bytes), 0)::BIGINT FROM memcpy"
    ) == oracle.row(f"{PREFIX}MEMCPY", f"{counted}, coalesce(sum(bytes), 0)")
    assert one(
        connection,
        "SELECT count(*), coalesce(sum(end_ns - start_ns), 0)::BIGINT FROM synchronization",
    ) == oracle.row(f"{PREFIX}SYNCHRONIZATION", counted)
    if f"{PREFIX}KERNEL" in oracle.tables:
        names = oracle.row(
            f"{PREFIX}KERNEL", "count(DISTINCT s.value)", f"{_NAMED} e.demangledName"
        )
        assert one(connection, "SELECT count(DISTINCT name) FROM kernel") == names


def _check_calls(connection: duckdb.DuckDBPyConnection, oracle: Oracle) -> None:
    sources = {
        "cuda": f"{PREFIX}RUNTIME",
        "cudnn": "CUDNN_EVENTS",
        "cublas": "CUBLAS_EVENTS",
        "osrt": "OSRT_API",
    }
    for api, source in sources.items():
        known = "eventClass" in oracle.columns(source)
        calls = f"WHERE eventClass NOT IN {NO_CALLS}" if known else ""
        assert one(
            connection,
            "SELECT count(*), coalesce(sum(end_ns - start_ns), 0)::BIGINT "
            f"FROM api_call WHERE api = '{api}'",
        ) == oracle.row(source, "count(*), coalesce(sum(end - start), 0)", calls)


def _check_ranges(connection: duckdb.DuckDBPyConnection, oracle: Oracle) -> None:
    session = oracle.row("ANALYSIS_DETAILS", "max(e.duration)")[0] or -1
    for kind, number in (("push_pop", 59), ("start_end", 60)):
        assert one(
            connection,
            "SELECT count(*), count(*) FILTER (is_open), "
            "coalesce(sum(end_ns - start_ns) FILTER (NOT is_open), 0)::BIGINT "
            f"FROM nvtx_range WHERE kind = '{kind}'",
        ) == oracle.row(
            "NVTX_EVENTS",
            f"count(*), count(*) - count(nullif(end, {session})), "
            f"coalesce(sum(nullif(end, {session}) - start), 0)",
            f"WHERE eventType = {number}",
        )
    assert one(connection, "SELECT count(*) FROM nvtx_mark") == oracle.row(
        "NVTX_EVENTS", "count(*)", "WHERE eventType = 34"
    )
    assert one(
        connection, "SELECT count(*) FROM nvtx_range WHERE end_ns < start_ns OR text IS NULL"
    ) == (0,)


def _check_keys(connection: duckdb.DuckDBPyConnection) -> None:
    """Every operation has one device row; ids and calls' correlation ids are unique."""
    for table in OPERATIONS:
        matches = one(
            connection,
            f"SELECT min(n), max(n) FROM (SELECT count(d.device_id) AS n FROM {table} AS o "
            "LEFT JOIN device AS d ON d.device_id = o.device_id "
            "AND (d.process_id IS NULL OR d.process_id = o.process_id) "
            f"GROUP BY o.{table}_id)",
        )
        assert matches in ((1, 1), (None, None)), table
    for table in (*OPERATIONS, "api_call", "nvtx_range", "synchronization"):
        assert one(connection, f"SELECT count(*) - count(DISTINCT {table}_id) FROM {table}") == (0,)
    assert (
        connection.execute(
            "SELECT process_id, correlation_id FROM api_call WHERE correlation_id IS NOT NULL "
            "GROUP BY ALL HAVING count(*) > 1"
        ).fetchall()
        == []
    )
    assert (
        connection.execute(
            "FROM kernel ANTI JOIN process USING (process_id) WHERE kernel.process_id IS NOT NULL"
        ).fetchall()
        == []
    )


@pytest.mark.parametrize("path", corpus_files("odd/*", "nvprof/*", "ncu/*", "nvprof_csv/*"))
def test_detection(path: Path) -> None:
    foreign = path.parent.name != "odd" or path.suffix != ".sqlite"
    foreign |= any(name in path.name for name in ("dldb", "docs__examples", "LFS", "slnx"))
    assert is_nsys(path) is not foreign


# --- facts of single files ----------------------------------------------------------------------


def device_facts(path: Path) -> list[tuple[Any, ...]]:
    with ingested(path, "device") as (connection, _):
        return connection.execute(
            "SELECT device_id, gpu_id, name, compute_capability, sm_count, clock_hz / 1e6, "
            "memory_bytes // 1048576, memory_bandwidth_bytes_per_s / 1e9 FROM device ORDER BY ALL"
        ).fetchall()


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (
            "NERSC_sc22-dl-tutorial__sample_nsys_profiles__baseline.qdrep.exp2022.4.sqlite",
            [(0, 0, "A100-SXM4-40GB", "8.0", 108, 1410.0, 40537, 1555.2)],
        ),
        (  # four equal GPUs that all say they are number 0
            "NERSC_sc22-dl-tutorial__sample_nsys_profiles__4gpu_baseline.qdrep.exp2022.4.sqlite",
            [(0, None, "A100-SXM4-40GB", "8.0", 108, 1410.0, 40537, 1555.2)],
        ),
        (  # 2020.3: kHz, MiB, no bandwidth
            "lockfuehrer_beast_ressoruces__report1.sqlite",
            [
                (0, None, "Tesla V100-PCIE-32GB", "7.0", 80, 1380.0, 32510, None),
                (1, None, "Tesla V100-PCIE-32GB", "7.0", 80, 1380.0, 32510, None),
            ],
        ),
        (  # 2020.5: kHz, bytes, kB/s
            "PolPuigPuy_OpenACC_Project_PolPuig__report12.sqlite",
            [(0, 0, "NVIDIA GeForce RTX 3080", "8.6", 68, 1740.0, 10009, 760.08)],
        ),
        (  # the same report, exported by 2022.4
            "PolPuigPuy_OpenACC_Project_PolPuig__report12.qdrep.exp2022.4.sqlite",
            [(0, 0, "NVIDIA GeForce RTX 3080", None, None, None, None, None)],
        ),
        (  # adapters that are no CUDA GPUs also say they are number 0
            "Athrun0109_CS336_assignment2__result.sqlite",
            [
                (
                    0,
                    0,
                    "NVIDIA RTX 5000 Ada Generation Laptop GPU",
                    "8.9",
                    76,
                    1680.0,
                    16375,
                    576.064,
                )
            ],
        ),
        (  # nine GPUs of four models without numbers
            "gartangh_Master-s-Dissertation__Darknet-19.qdrep.exp2022.4.sqlite",
            [(7, None, None, None, None, None, None, None)],
        ),
        (
            "GindaChen_nsys-ai__tests__fixtures__h100_2gpu_1s.sqlite",
            [(0, *[None] * 7), (1, *[None] * 7)],
        ),
    ],
)
def test_devices(corpus: Path, name: str, facts: list[tuple[Any, ...]]) -> None:
    assert device_facts(corpus / "nsys" / name) == facts


def test_cuda_numbers_are_not_the_order_of_the_list(corpus: Path) -> None:
    path = corpus / "nsys" / "igouProto_CSC746CUDALab__report1.sqlite"
    assert [row[:2] for row in device_facts(path)] == [(0, 3), (1, 2), (2, 1), (3, 0)]


@pytest.mark.slow
def test_synchronizations_of_the_second_gpu(corpus: Path) -> None:
    path = corpus / "nsys" / "GindaChen_nsys-ai__tests__fixtures__h100_2gpu_1s.sqlite"
    with ingested(path) as (connection, notes):
        found = connection.execute(
            "SELECT process_id >> 24 & 16777215, device_id, count(*) "
            "FROM synchronization GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert found == [(111, 0, 122), (112, 1, 122)]
    assert any(note.startswith("1810 kernels have no launching call") for note in notes)


def test_domains(corpus: Path) -> None:
    name = "NERSC_sc22-dl-tutorial__sample_nsys_profiles__4gpu_baseline.qdrep.exp2022.4.sqlite"
    with ingested(corpus / "nsys" / name, "nvtx_range") as (connection, _):
        found = connection.execute(
            "SELECT domain_id, domain, count(*) FROM nvtx_range GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert found == [(0, None, 696), (1, "DALI", 2027), (2, "NCCL", 696)]


@pytest.mark.slow
def test_open_range(corpus: Path) -> None:
    name = "gartangh_Master-s-Dissertation__report10.qdrep.exp2022.4.sqlite"
    with ingested(corpus / "odd" / name, "nvtx_range", "api_call") as (connection, _):
        found = one(connection, "SELECT text, domain, kind, is_open, start_ns FROM nvtx_range")
        assert found == ("Model", "Forward", "start_end", True, 2401834855)
        assert one(
            connection, "SELECT r.end_ns >= (SELECT max(end_ns) FROM api_call) FROM nvtx_range AS r"
        ) == (True,)


def test_ranges_that_the_profiler_ended_are_open(corpus: Path) -> None:
    path = corpus / "nsys" / "yyhtbs-yye_mmagic_vsr_v2__net.sqlite"
    with ingested(path, "nvtx_range") as (connection, _):
        found = connection.execute(
            "SELECT is_open, count(*), min(end_ns) = max(end_ns) FROM nvtx_range GROUP BY ALL "
            "ORDER BY ALL"
        ).fetchall()
    assert found == [(False, 552, False), (True, 1404, True)]


@pytest.mark.slow
def test_graph_launches(corpus: Path) -> None:
    path = corpus / "nsys" / "zx3xyy_assignment2-systems__result_2_7B_compile_ro.sqlite"
    with ingested(path) as (connection, notes):
        assert one(
            connection, "SELECT count(*), min(graph_id), min(graph_exec_id) FROM graph_launch"
        ) == (10, 4, 5)
    assert any(note.startswith("10 CUDA graph launches") for note in notes)


def test_gpu_metrics(corpus: Path) -> None:
    path = corpus / "nsys" / "als244_ResourceEstimation__reports__report2.nsys-rep.exp2022.4.sqlite"
    with ingested(path, "gpu_sample") as (connection, _):
        assert one(
            connection,
            "SELECT count(*), count(DISTINCT metric), count(DISTINCT timestamp_ns), min(value) "
            "FROM gpu_sample",
        ) == (6090 * 18, 18, 6090, 0.0)
        units = connection.execute("SELECT DISTINCT unit FROM gpu_sample ORDER BY ALL").fetchall()
    assert units == [("%",), ("Hz",), ("count",)]


# --- NVIDIA's own statistics --------------------------------------------------------------------

_STATISTICS = {
    "DLProf_native2022.1": "MohanadOdema_DLProf__nsys_profile",
    "NERSC_4gpu_baseline_qdrep": (
        "NERSC_sc22-dl-tutorial__sample_nsys_profiles__4gpu_baseline.qdrep.exp2022.4"
    ),
    "NERSC_baseline_qdrep": (
        "NERSC_sc22-dl-tutorial__sample_nsys_profiles__baseline.qdrep.exp2022.4"
    ),
    "NERSC_dali_amp_apex_jit_qdrep": (
        "NERSC_sc22-dl-tutorial__sample_nsys_profiles__dali_amp_apex_jit.qdrep.exp2022.4"
    ),
    "gartangh_darknet19": "gartangh_Master-s-Dissertation__Darknet-19.qdrep.exp2022.4",
    "zx3xyy_nvtx_native2024.6": "zx3xyy_assignment2-systems__result_2_7B_nvtx",
}
_OURS = {  # per report: our tables, its columns, our rows
    "gpukernsum": (
        ("kernel",),
        "Name",
        "Instances",
        "SELECT name, sum(duration_ns)::BIGINT, count(*) FROM kernel GROUP BY ALL",
    ),
    "gpumemtimesum": (
        ("memcpy", "memset"),
        "Operation",
        "Count",
        "SELECT '[CUDA memcpy ' || direction || ']', sum(duration_ns)::BIGINT, count(*) "
        "FROM memcpy GROUP BY ALL UNION ALL "
        "SELECT '[CUDA memset]', sum(duration_ns)::BIGINT, count(*) FROM memset "
        "HAVING count(*) > 0",
    ),
    "nvtxppsum": (
        ("nvtx_range",),
        "Range",
        "Instances",
        "SELECT coalesce(domain || ':', '') || text, sum(end_ns - start_ns)::BIGINT, count(*) "
        "FROM nvtx_range WHERE kind = 'push_pop' GROUP BY ALL",
    ),
}


@pytest.mark.needs("corpus")
@pytest.mark.parametrize("report", _OURS)
@pytest.mark.parametrize("name", _STATISTICS)
def test_agrees_with_nsys_stats(corpus: Path, name: str, report: str) -> None:
    tables, key, count, ours = _OURS[report]
    total: Counter[str] = Counter()
    instances: Counter[str] = Counter()
    with (corpus / "oracle" / f"nsys_stats_2022.4__{name}_{report}.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        for row in csv.DictReader(file):
            total[row[key]] += int(row["Total Time (ns)"])
            instances[row[key]] += int(row[count])
    path = corpus / "nsys" / f"{_STATISTICS[name]}.sqlite"
    with ingested(path, *tables) as (connection, _):
        found = {row[0]: row[1:] for row in connection.execute(ours).fetchall()}
    assert found == {name: (total[name], instances[name]) for name in total}
