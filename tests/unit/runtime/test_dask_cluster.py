"""A Dask cluster answers queries over many traces as this process does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from corpus import ROOT
from deadly_store import TRACE, DeadlyDatabase, deadly
from tbd_trace.cli.main import app
from tbd_trace.errors import TbdTraceError, UsageError
from tbd_trace.query import Catalogue, execute
from tbd_trace.runtime import dask_cluster
from tbd_trace.runtime.dask_cluster import DaskCluster
from tbd_trace.runtime.executors import Executor, Processes, ThisProcess
from tbd_trace.store import Database

pytestmark = pytest.mark.slow

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("dask") / "samples.duckdb")
    samples = ROOT / "data" / "samples"
    database.ingest([samples / "synthetic_cnn", samples / "synthetic_memory"])
    return database


@pytest.fixture(scope="module")
def deadly_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file after whose creation no worker is killed."""
    return tmp_path_factory.mktemp("deadly") / "ended"


@pytest.fixture(scope="module")
def cluster(traces: Database, deadly_file: Path) -> Iterator[Any]:
    # Workers inherit the variable from their start.
    timeline = traces.traces().row(by_predicate=_is_timeline(), named=True)["trace_id"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRACE, deadly(timeline, deadly_file))
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=None, host="127.0.0.1"
        ) as started:
            yield started


def _is_timeline() -> Any:
    import polars as pl

    return pl.col("kind") == "timeline"


def test_same_answers(traces: Database, cluster: Any) -> None:
    executors: list[Executor] = [DaskCluster(cluster.scheduler_address), Processes(2)]
    names = ("kernel_summary", "memory_timeline", "nvtx_kernels")
    queries = [Catalogue().get(name) for name in names]
    wanted = [execute(traces, query, executor=ThisProcess()) for query in queries]
    for executor in executors:
        with executor:
            for query, expected in zip(queries, wanted, strict=True):
                found = execute(traces, query, executor=executor)
                assert found.frame.equals(expected.frame)
                assert found.frame.schema == expected.frame.schema
                assert not found.missing


def test_same_bytes_from_the_command_line(traces: Database, cluster: Any) -> None:
    command = ["query", "memory_peak", "--db", str(traces.path), "--format", "csv"]
    expected = CliRunner().invoke(app, command)
    found = CliRunner().invoke(app, [*command, "--dask", cluster.scheduler_address])
    assert found.exit_code == 0, found.output
    assert found.stdout == expected.stdout


def test_worker_that_ends(traces: Database, cluster: Any, deadly_file: Path) -> None:
    query = Catalogue().get("kernel_summary")
    with DaskCluster(cluster.scheduler_address) as executor:
        found = execute(DeadlyDatabase(traces.path), query, executor=executor)
    assert deadly_file.exists()
    assert not found.missing
    assert found.frame.equals(execute(traces, query).frame)


def test_cluster_without_workers(traces: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_WITHOUT_WORKERS_SECONDS", 0)
    monkeypatch.setattr(dask_cluster, "_LOOK_SECONDS", 0.1)
    with distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as empty:
        result = CliRunner().invoke(
            app,
            [
                "query",
                "kernel_summary",
                "--db",
                str(traces.path),
                "--dask",
                empty.scheduler_address,
            ],
        )
    assert result.exit_code == 1
    assert "no answer for" in result.output
    assert "synthetic_cnn/timeline.sqlite" in result.output


def test_other_version(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "__version__", "0.0.1")
    with (
        DaskCluster(cluster.scheduler_address) as executor,
        pytest.raises(TbdTraceError, match=r"install 0\.0\.1 on all"),
    ):
        list(executor.run([dict]))


@pytest.mark.parametrize("address", ["nonsense://x", "tcp://127.0.0.1:{port}"])
def test_no_cluster(traces: Database, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_SECONDS", 1)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = address.format(port=unused.getsockname()[1])
        result = CliRunner().invoke(
            app, ["query", "kernel_summary", "--db", str(traces.path), "--dask", address]
        )
    assert result.exit_code == UsageError.exit_code
    assert f"--dask {address}: cannot be reached" in result.output
    assert len(result.output.splitlines()) == 1


def test_one_place_only(traces: Database) -> None:
    command = ["query", "kernel_summary", "--db", str(traces.path), "--dask", "x", "--workers", "2"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == UsageError.exit_code
    assert "choose one" in result.output
