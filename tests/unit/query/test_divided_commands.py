"""Rules, reports and ingest of many traces in several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner

from corpus import ROOT
from deadly_store import TRACE, DeadlyDatabase, deadly
from fast import nightly
from tbd_trace.analysis.checks import evaluate
from tbd_trace.analysis.report import sections
from tbd_trace.analysis.report.memory_section import ID as MEMORY
from tbd_trace.analysis.report.page import Block, Note, Section
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.analysis.report.sections import build_page
from tbd_trace.api import Traces
from tbd_trace.cli.main import app
from tbd_trace.errors import StoreError
from tbd_trace.runtime.executors import Processes, ThisProcess
from tbd_trace.store import Database

pytestmark = pytest.mark.slow

SAMPLES = [ROOT / "data" / "samples" / name for name in ("synthetic_cnn", "synthetic_memory")]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    database = Database(tmp_path_factory.mktemp("divided") / "samples.duckdb")
    database.ingest(SAMPLES)
    return Traces(database, database.trace_ids())


def undrawn(answer: Answer, names: Mapping[str, str], caption: str) -> Callable[[], Block]:
    return lambda: Note(f"{answer.label} {caption} {answer.frame.rows()}")


def test_same_verdicts(traces: Traces) -> None:
    expected = evaluate(traces)
    assert {"finding", "pass", "not evaluable"} == set(expected["verdict"])
    with Processes(2) as executor:
        assert evaluate(traces, executor=executor).equals(expected)


def test_parameters_of_rules(traces: Traces) -> None:
    rules, parameters = ["OBS04", "OBS08"], {"min_busy_pct": "99.9"}
    expected = evaluate(traces, rules, parameters)
    assert not expected.equals(evaluate(traces, rules))
    assert evaluate(traces, rules, parameters, executor=ThisProcess()).equals(expected)


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=nightly)])
def test_same_report(traces: Traces, monkeypatch: pytest.MonkeyPatch, is_whole: bool) -> None:
    if not is_whole:
        few = [chapter for chapter in sections.CHAPTERS if chapter.id in {"kernels", MEMORY}]
        assert len(few) == 2
        monkeypatch.setattr(sections, "CHAPTERS", few)
        monkeypatch.setattr(sections, "headline", lambda *_: [])
        monkeypatch.setattr(sections, "findings", lambda *_: Section("findings", "Findings"))
        why = [lambda: Section("why", "Why")]
        monkeypatch.setattr(sections, "why_section", lambda *_, **__: why)
    expected = build_page(traces, draw=undrawn)
    assert str(build_page(traces, draw=undrawn, executor=ThisProcess())) == str(expected)


def test_process_that_ends_during_a_check(
    traces: Traces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    timeline = traces.database.resolve(["synthetic_cnn/timeline.sqlite"])[0]
    monkeypatch.setenv(TRACE, deadly(timeline))
    monkeypatch.setattr("tbd_trace.api.Database", DeadlyDatabase)
    written = tmp_path / "verdicts.csv"
    command = [
        "check",
        "--rule",
        "ROB04",
        "--rule",
        "MEM01",
        "--db",
        traces.database.name,
        "--workers",
        "1",
    ]
    result = CliRunner().invoke(app, [*command, "-o", str(written)])
    assert result.exit_code == 1
    assert "no answer for synthetic_cnn/timeline.sqlite" in result.output
    trace_ids = set(pl.read_csv(written)["trace_id"])
    assert trace_ids
    assert timeline not in trace_ids


def test_ingest(traces: Traces, tmp_path: Path) -> None:
    database = tmp_path / "shared.duckdb"
    missing, text = tmp_path / "missing.sqlite", tmp_path / "text.txt"
    text.write_text("no profile")
    paths = [SAMPLES[0], missing, text, SAMPLES[1]]
    command = ["ingest", "--db", database, "--workers", 2, *paths]
    result = CliRunner().invoke(app, list(map(str, command)))
    assert result.exit_code == 1
    assert "no such file" in result.output
    assert "unsupported file format" in result.output
    assert Database(database).trace_ids() == traces.trace_ids
    # One line per profile, in the order of the files.
    names = [line.split()[-1] for line in result.stdout.splitlines()]
    assert names == _in_order(traces)
    for table in ("kernel", "memory_event"):
        assert _rows(Database(database), table) == _rows(traces.database, table)
    again = CliRunner().invoke(app, list(map(str, command)))
    assert again.stdout.count("already there") == len(names)


def test_ingest_by_processes_writes_the_views_once(traces: Traces, tmp_path: Path) -> None:
    database = tmp_path / "shared.duckdb"
    apart = Database(database).without_views()
    reports = apart.ingest(SAMPLES[:1])
    assert not database.exists()
    command = ["ingest", "--db", str(database), "--workers", "2", *map(str, SAMPLES)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("already there") == len(reports)
    with duckdb.connect(database) as shell:
        shown = shell.execute("SELECT count(*) FROM trace").fetchall()
    assert shown == [(len(traces.trace_ids),)]


def test_ingest_by_processes_without_views(tmp_path: Path) -> None:
    database = tmp_path / "shared.duckdb"
    database.write_bytes(b"12345678DUCK" + bytes(100))  # as a DuckDB file that is damaged
    command = ["ingest", "--db", str(database), "--workers", "2", *map(str, SAMPLES)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == StoreError.exit_code
    assert "its views cannot be written" in result.output
    assert "choose another place with --db" in result.output
    database.unlink()
    assert CliRunner().invoke(app, command).exit_code == 0
    with duckdb.connect(database) as shell:
        assert shell.execute("SELECT count(*) > 0 FROM kernel").fetchall() == [(True,)]


def _in_order(traces: Traces) -> list[str]:
    return [str(name) for name in traces.database.traces()["name"]]


def _rows(database: Any, table: str) -> list[tuple[Any, ...]]:
    found = Traces(database, database.trace_ids()).sql(f"FROM {table} ORDER BY ALL")
    rows: list[tuple[Any, ...]] = found.rows()
    return rows
