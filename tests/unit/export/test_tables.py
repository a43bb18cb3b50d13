"""export: tables as files, and the command line of both exports."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner

import tbd_trace
from corpus import ROOT
from fast import one_in, slow
from tbd_trace import Traces
from tbd_trace.cli.main import app
from tbd_trace.errors import TbdTraceError, UsageError
from tbd_trace.export.tables import export, relations

pytestmark = pytest.mark.usefixtures("sample_cache")

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"


def rows(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", one_in(2, ["kernel", "nvtx_range", "op_scope", "iteration", "trace"])
)
def test_the_file_holds_the_table(elsewhere: Path, name: str) -> None:
    traces = tbd_trace.open(SAMPLE)
    path = elsewhere / "rows.parquet"
    assert export(traces, name, path) == rows(path).height
    table = traces.sql(f"SELECT * FROM {name} ORDER BY ALL")
    assert table.height
    found = rows(path).sort(table.columns[:3], nulls_last=True)
    assert found.columns == table.columns
    assert found.equals(table.sort(table.columns[:3], nulls_last=True))


@pytest.mark.slow
def test_csv_and_empty_tables(elsewhere: Path) -> None:
    traces = tbd_trace.open(SAMPLE)
    assert export(traces, "memcpy", elsewhere / "rows.csv") == 25
    assert rows(elsewhere / "rows.csv")["bytes"].to_list() == (
        traces.sql("SELECT bytes FROM memcpy ORDER BY memcpy_id")["bytes"].to_list()
    )
    assert export(traces, "gpu_sample", elsewhere / "none.parquet") == 0
    assert rows(elsewhere / "none.parquet").columns[0] == "trace_id"


class OneConnection(Traces):
    """Traces that derive a table once for all exports."""

    @cached_property
    def _shared(self) -> duckdb.DuckDBPyConnection:
        return super().connect()

    def connect(self, *_: str) -> duckdb.DuckDBPyConnection:
        return self._shared.cursor()


@slow
def test_every_table_can_be_exported(elsewhere: Path) -> None:
    opened = tbd_trace.open(SAMPLE)
    with OneConnection(opened.database, opened.trace_ids) as traces:
        for name in relations():
            export(traces, name, elsewhere / "rows.parquet")
            assert rows(elsewhere / "rows.parquet").width


def test_what_cannot_be_written(elsewhere: Path) -> None:
    traces = tbd_trace.open(SAMPLE)
    with pytest.raises(UsageError, match="no table 'kernels'; did you mean kernel"):
        export(traces, "kernels", elsewhere / "rows.csv")
    with pytest.raises(UsageError, match=r"ends in \.parquet or \.csv"):
        export(traces, "kernel", elsewhere / "rows.txt")
    with pytest.raises(TbdTraceError, match="cannot be written"):
        export(traces, "kernel", elsewhere / "nowhere" / "rows.csv")
    (elsewhere / "rows.csv").mkdir()
    with pytest.raises(TbdTraceError, match="is a directory"):
        export(traces, "kernel", elsewhere / "rows.csv")
    assert [entry.name for entry in elsewhere.iterdir() if "tmp" in entry.name] == []


def test_a_directory_that_is_a_file(elsewhere: Path) -> None:
    (elsewhere / "file").touch()
    with pytest.raises(TbdTraceError, match="cannot be written"):
        export(tbd_trace.open(SAMPLE), "kernel", elsewhere / "file" / "rows.csv")


@pytest.mark.slow
def test_commands(elsewhere: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["export", *words])
        return result.exit_code, result.stderr

    code, said = run("table", "kernel", str(SAMPLE), "-o", "kernels.parquet")
    assert (code, said) == (0, "note: wrote kernels.parquet: 326 rows\n")
    code, said = run("perfetto", str(SAMPLE), "-o", "sample.pftrace")
    assert code == 0
    # The file has 379 calls, 338 operations, 288 ranges and 12 iterations: 1017. Ten of the
    # iterations count (no warm-up). Each has 64 causes: 28 operations, 27 launches, 5 moments of
    # the host, 2 allocations, the synchronization, and the loader's wait that ends in the next
    # iteration. The first wait makes one more: the last iteration ends with the host instead.
    assert said.startswith("note: wrote sample.pftrace: 1,658 slices, 0 marks and 28 values")
    assert run("table", "kernel", str(SAMPLE))[0] == 2  # no -o
    assert run("perfetto", str(SAMPLE), "-o", "sample.json")[0] == 2
    assert run("perfetto", str(SAMPLE / "metrics.csv"), "-o", "sample.pftrace")[0] == 3
    assert run("perfetto", "nothing", "-o", "sample.pftrace")[0] == 2
