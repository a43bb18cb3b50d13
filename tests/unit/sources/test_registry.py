"""What every source must keep, and that a table and a source are added in one place each.

A new source adds a function to ``EXAMPLES`` that writes one of its files.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import made_flight
import made_kineto
import made_nsys
import made_nvprof
import made_rocprof
import tbd_trace
from corpus import ROOT
from made_mxnet_memory import HEADER as MXNET_HEADER
from made_mxnet_memory import counter
from made_nccl_tests import LOG as NCCL_TESTS_LOG
from made_xla_memory import made as xla_plan_file
from perfetto_file import read as read_perfetto
from tbd_trace import resources
from tbd_trace.archive.leak_scan import leaks, leaks_in_tables
from tbd_trace.errors import InputError, TbdTraceError
from tbd_trace.export.perfetto import export
from tbd_trace.model import canonical_tables as model
from tbd_trace.query import catalogue
from tbd_trace.query.advice import how_to_collect
from tbd_trace.runtime.duckdb_connection import column_types
from tbd_trace.sources import registry
from tbd_trace.sources.base import FixedColumnsReader, Source, TraceDescription
from tbd_trace.sources.registry import PluginWarning, identify, load, plugins, tools
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
MEMORY_SAMPLE = ROOT / "data" / "samples" / "synthetic_memory"
# The advice on their tables names their commands.
NO_COMMAND = {"torch", "tbd-trace", "mxnet", "xla", "nccl-tests", "flight-recorder"}


def nsys_file(folder: Path) -> Path:
    tables = {made_nsys.KERNEL: [made_nsys.kernel()], "StringIds": made_nsys.strings()}
    return made_nsys.write(folder / "a.sqlite", tables)


def nvprof_file(folder: Path) -> Path:
    return made_nvprof.make(folder / "a.nvvp", ["k"], {"CONCURRENT_KERNEL": [made_nvprof.kernel()]})


def nvprof_csv_file(folder: Path) -> Path:
    path = folder / "a.csv"
    path.write_text(
        "==1== NVPROF is profiling process 1, command: x\n==1== Profiling result:\n"
        '"Start","Duration","Name","Correlation_ID"\nms,ms,,\n9.0,1.0,"cudaFree",3\n'
    )
    return path


def ncu_file(folder: Path) -> Path:
    return Path(shutil.copy(SAMPLE / "metrics.csv", folder))


def memory_log_file(folder: Path) -> Path:
    return Path(shutil.copy(MEMORY_SAMPLE / "memory.jsonl", folder))


def torch_snapshot_file(folder: Path) -> Path:
    return Path(shutil.copy(MEMORY_SAMPLE / "snapshot.pickle", folder))


def torch_trace_file(folder: Path) -> Path:
    events = [made_kineto.launch(1, 3), made_kineto.kernel(2, 1, 3)]
    return made_kineto.write(folder / "a.json.gz", made_kineto.document(events))


def flight_recorder_file(folder: Path) -> Path:
    groups = {"0": [0, 1]}
    programs = {rank: [made_flight.Made("0", 1)] for rank in groups["0"]}
    entries = made_flight.played(programs, groups)
    return made_flight.write_dumps(folder, entries, groups) / "dump_1"


def mxnet_csv_file(folder: Path) -> Path:
    path = folder / "gpu_memory_profile.csv"
    path.write_text(f'{MXNET_HEADER}"net:in_arg:conv0_weight","1000","0","4096","0"\n')
    return path


def mxnet_counter_file(folder: Path) -> Path:
    path = folder / "profile.json"
    events = [counter(10, "Memory: cpu/0", 100), counter(20, "Memory: cpu/0", 300)]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def nccl_tests_file(folder: Path) -> Path:
    path = folder / "link.log"
    path.write_text(NCCL_TESTS_LOG)
    return path


def rocpd_file(folder: Path) -> Path:
    return made_rocprof.write_database(folder / "a_results.db", made_rocprof.drawn(1, 2))


def rocprof_json_file(folder: Path) -> Path:
    content = made_rocprof.document(made_rocprof.drawn(1, 2))
    return made_rocprof.write_json(folder / "a_results.json", content)


EXAMPLES: dict[str, Callable[[Path], Path] | None] = {
    "nsys-sqlite": nsys_file,
    "nsys-report": None,  # needs an installed nsys: tests/integration/test_nsys_report.py
    "nvprof-sqlite": nvprof_file,
    "nvprof-csv": nvprof_csv_file,
    "ncu-csv": ncu_file,
    "memory-log": memory_log_file,
    "torch-memory-snapshot": torch_snapshot_file,
    "flight-recorder-dump": flight_recorder_file,
    "torch-json": torch_trace_file,
    "mxnet-gpu-memory": mxnet_csv_file,
    "mxnet-memory-counter": mxnet_counter_file,
    "nccl-tests-log": nccl_tests_file,
    "xla-buffer-assignment": xla_plan_file,
    "rocpd-sqlite": rocpd_file,
    "rocprof-json": rocprof_json_file,
}
FORMATS = [(name, place) for tool in tools().values() for name, place in tool.formats.items()]


# the conformance suite


def test_every_format_has_an_example() -> None:
    assert [name for name, _ in FORMATS] == sorted(EXAMPLES, key=[n for n, _ in FORMATS].index)


def test_tools_describe_themselves() -> None:
    for name, tool in tools().items():
        assert tool.name == name
        assert tool.accepts
        assert tool.profile_command or tool.counters_command or name in NO_COMMAND
        for command in filter(None, (tool.profile_command, tool.counters_command)):
            assert command.startswith("`")


def check_source(place: str, name: str, path: Path) -> None:
    """Assert what the protocols of ``sources/base.py`` promise, for one file of a format."""
    source: Source = load(place)
    head = path.read_bytes()[:65_536]
    assert source.format == name
    assert source.detect(path, head)
    zeros = path.with_name("zeros.bin")  # snapshots of PyTorch are also known by their names
    zeros.write_bytes(b"\x00" * len(head))
    assert not source.detect(zeros, zeros.read_bytes())
    assert [found.format for found in registry.sources() if found.detect(path, head)] == [name]
    filled = set()
    with source.open(path) as reader, duckdb.connect() as connection:
        for table in model.event_tables().values():
            select = reader.relation(connection, table.name)
            if select is None:
                continue
            types = column_types(connection, select)
            columns = {column.name: column.type for column in table.columns}
            assert types.keys() <= columns.keys() - {"trace_id"}
            if isinstance(reader, FixedColumnsReader):
                fixed = reader.column_types(connection, table.name)
                assert fixed in (None, types)
            casts = ", ".join(f"CAST({name} AS {columns[name]})" for name in types)
            if connection.execute(f"SELECT {casts} FROM ({select})").fetchall():
                filled.add(table.name)
        description = reader.describe()
    assert isinstance(description, TraceDescription)
    assert description.kind in ("timeline", "metrics", "summary", "memory")
    assert description.tool in (*tools(), *plugins())
    assert filled


@pytest.mark.parametrize(("name", "place"), FORMATS)
def test_sources_keep_the_protocol(tmp_path: Path, name: str, place: str) -> None:
    example = EXAMPLES[name]
    if example is None:
        pytest.skip("its reader is that of nsys-sqlite, behind an installed nsys")
    check_source(place, name, example(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("example", [made for made in EXAMPLES.values() if made])
def test_a_report_counts_the_kernels_of_the_trace(
    tmp_path: Path, example: Callable[[Path], Path]
) -> None:
    path = example(tmp_path)
    database = Database(tmp_path / "made.duckdb")
    [first], [again] = database.ingest([path]), database.ingest([path])
    assert first == replace(again, status="ingested")
    assert first.kernels == database.kernels(first.trace_id)


@pytest.mark.parametrize(("name", "place"), FORMATS)
def test_a_damaged_file_is_one_line(tmp_path: Path, name: str, place: str) -> None:
    example = EXAMPLES[name]
    if example is None:
        pytest.skip("its reader is that of nsys-sqlite, behind an installed nsys")
    path = example(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])
    try:
        Database(tmp_path / "x.duckdb").ingest([path])
    except TbdTraceError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)


# a toy source: one package


TOY = '''
"""Read the toy format: a line per kernel."""

import duckdb
from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.tool import Tool

MAGIC = b"toy profile"
TOOL = Tool(
    name="toy", formats={"toy-text": "toy_profiler:TOY"}, accepts="a toy profile",
    profile_command="`toy record`", find_private="toy_profiler:find_private",
)


def find_private(path, report):
    report.add("users", "line 1", "jane", 1)


class Reader:
    def __init__(self, path):
        self.rows = [line.split() for line in path.read_text().splitlines()[1:]]

    def relation(self, connection, table):
        if table != "kernel":
            return None
        values = ", ".join(
            f"({i}, {start}, {end}, '{name}')" for i, (start, end, name) in enumerate(self.rows)
        )
        columns = "t(kernel_id, start_ns, end_ns, name)"
        return f"SELECT *, end_ns - start_ns AS duration_ns FROM (VALUES {values}) AS {columns}"

    def describe(self, ask=None):
        return TraceDescription(tool="toy", kind="timeline")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Toy:
    format = "toy-text"

    def detect(self, path, head):
        return head.startswith(MAGIC)

    def open(self, path):
        return Reader(path)


TOY = Toy()
'''


class Entry:
    """An entry point of the group ``tbd_trace.sources``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> types.ModuleType:
        return __import__(self.name)


@pytest.fixture
def install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], None]]:
    """Return a function that installs a plug-in package from its text."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    names: list[str] = []

    def installed(name: str, text: str) -> None:
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
        names.append(name)
        plugins.cache_clear()

    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [Entry(name) for name in names]
    )
    yield installed
    plugins.cache_clear()
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def toy_file(tmp_path: Path) -> Path:
    path = tmp_path / "a.toy"
    path.write_text("toy profile\n10 30 gemm\n40 45 relu\n")
    return path


@pytest.mark.slow
def test_a_source_is_one_package(
    tmp_path: Path, install: Callable[[str, str], None], toy_file: Path
) -> None:
    with pytest.raises(InputError, match="unsupported file format"):
        identify(toy_file)
    install("toy_profiler", TOY)
    check_source("toy_profiler:TOY", "toy-text", toy_file)
    traces = tbd_trace.open(db=_ingested(tmp_path, toy_file))
    assert traces.query("kernel_summary")["total_ns"].to_list() == [20, 5]
    assert traces.query("trace_info")["tool"].to_list() == ["toy"]
    assert "`toy record`" in how_to_collect(["gpu_op"], "toy", "timeline")
    assert leaks(toy_file)["kind"].to_list() == ["users"]


def _ingested(folder: Path, file: Path) -> Path:
    database = Database(folder / "toy.duckdb")
    database.ingest([file])
    return database.path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("raise RuntimeError('broken')", "broken_profiler"),
        ("TOOL = 3", "broken_profiler"),
        (
            """
            from tbd_trace.sources.tool import Tool
            TOOL = Tool("bad", {"bad-format": "broken_profiler:BAD"}, "a bad profile")
            class Bad:
                format = "bad-format"
                def detect(self, path, head):
                    raise OSError("no luck")
            BAD = Bad()
            """,
            "bad-format",
        ),
    ],
    ids=["at import", "no tool", "at detection"],
)
def test_a_plug_in_that_raises_is_named_and_others_go_on(
    install: Callable[[str, str], None], toy_file: Path, text: str, names: str
) -> None:
    install("broken_profiler", text)
    install("toy_profiler", TOY)
    with pytest.warns(PluginWarning, match=f"{names}.*update or uninstall it"):
        assert identify(toy_file).format == "toy-text"


# a toy table: one file


TABLE = """/*
title = "One instant at which the toy rang."
times = ["timestamp_ns"]
[privacy]
bell = "text"
[advice]
missing = "needs bells; ring them with `toy --bells`"
[timeline]
row_kind  = "'nvtx'"
lane      = "'Bells'"
category  = "'bell'"
name      = "bell"
*/
CREATE TABLE toy_bell (
    trace_id     VARCHAR NOT NULL, -- the trace
    timestamp_ns BIGINT NOT NULL,  -- when, trace clock
    process_id   BIGINT,           -- key of the process
    thread_id    BIGINT,           -- key of the thread
    bell         VARCHAR           -- inscription
);
"""


@pytest.fixture
def toy_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add a canonical table: a file in a copy of queries/, and its mapping for nsys."""
    queries = tmp_path / "queries"
    shutil.copytree(resources.queries(), queries)
    (queries / "canonical" / "host" / "toy_bell.sql").write_text(TABLE)
    monkeypatch.setattr(resources, "queries", lambda: queries)
    caches = (
        model.canonical_tables, model.event_tables, model.timed_tables, model.gpu_tables,
        model.clock_tables, model.long_tables, catalogue.derived_names,
        catalogue.derived_relation, catalogue.derive_relations,
    )  # fmt: skip
    for cache in caches:
        cache.cache_clear()
    yield
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("toy_table", "elsewhere")
def test_a_table_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tbd_trace.sources.nsys.reader import NsysReader

    rows = (
        "SELECT 5 AS timestamp_ns, 1 AS process_id, 7 AS thread_id, "
        "'made by /home/jane/x.py' AS bell"
    )
    relation = NsysReader.relation
    monkeypatch.setattr(
        NsysReader,
        "relation",
        lambda reader, connection, table: (
            rows if table == "toy_bell" else relation(reader, connection, table)
        ),
    )
    path = nsys_file(tmp_path)
    database = Database(tmp_path / "x.duckdb")
    database.ingest([path])
    traces = tbd_trace.open(db=database.path)
    assert traces.sql("SELECT timestamp_ns FROM toy_bell").rows() == [(5,)]
    (start,) = traces.sql("SELECT start_ns FROM trace").row(0)  # its times bound the trace
    assert start == 5
    assert "toy_bell" in traces.query("trace_info")["holds"][0]
    assert how_to_collect(["toy_bell"], "nsys", "timeline") == (
        "needs bells; ring them with `toy --bells`"
    )
    with traces.connect() as connection:
        leaks = leaks_in_tables(connection)
    assert "toy_bell.bell" in leaks["where"].to_list()
    export(traces, tmp_path / "made.pftrace")
    file = read_perfetto(tmp_path / "made.pftrace")
    assert "made by /home/jane/x.py" in str(file.instants)


# no hidden lists


@pytest.mark.slow
def test_no_module_outside_model_and_sources_names_an_event_table() -> None:
    """A list of tables in Python would have to be kept up to date by hand."""
    import ast

    # Words that mean other things, too.
    words = {"device", "process", "thread", "kernel", "memcpy", "synchronization", model.CATALOGUE}
    names = model.canonical_tables().keys() - words
    package = ROOT / "pipeline" / "tbd_trace"
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {node.value}"
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] not in ("model", "sources")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    # Archives of release 0.1.0 have other tables; their names are fixed.
    assert [line for line in found if not line.startswith("store/layout_v1.py")] == []
