"""The public Python interface, and what release 0.1.0 left behind."""

from __future__ import annotations

import hashlib
import html
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import duckdb
import pytest

import tbd_trace
from corpus import ROOT
from fast import nightly, one_in, slow
from tbd_trace import Result, Traces
from tbd_trace.api import open_archive
from tbd_trace.archive.manifest import FILE, _sealed
from tbd_trace.archive.operations import create, extract
from tbd_trace.errors import StoreError, UsageError
from tbd_trace.query import Catalogue
from tbd_trace.query.renamed import renamed
from tbd_trace.redact.tables import Redaction
from tbd_trace.store import Database

pytestmark = pytest.mark.usefixtures("sample_cache")

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
RENAMED = {old: one.name for old, one in renamed("relations").items()}
SCRIPT = """
from tbd_trace import Result, Traces, instrument, open

with open("{sample}") as traces:
    found: Result = traces.run("fp32_util", by="trace")
    rows: int = found.frame.height
    one: Traces = traces
instrument(object()).remove()
"""


def test_everything_public_is_exported() -> None:
    for name in tbd_trace.__all__:
        assert getattr(tbd_trace, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tbd_trace.nothing  # type: ignore[attr-defined]


@nightly
def test_a_users_script_is_typed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(sample=SAMPLE))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert "script.py" not in done.stdout, done.stdout
    assert "Success" in done.stdout, done.stdout


@pytest.mark.slow
def test_traces_close_their_connections(elsewhere: Path) -> None:
    with tbd_trace.open(SAMPLE) as traces:
        assert isinstance(traces, Traces)
        connection = traces.connect("op_scope")
        assert connection.sql("SELECT count(*) > 0 FROM op_scope").fetchall() == [(True,)]
    with pytest.raises(duckdb.ConnectionException):
        connection.sql("SELECT 1")


def test_results_show_in_a_notebook(elsewhere: Path) -> None:
    found = tbd_trace.open(SAMPLE).run("kernel_summary")
    assert isinstance(found, Result)
    assert f"<h4>{found.query.title}</h4>" in found._repr_html_()
    assert "<table" in found._repr_html_()


@pytest.mark.slow
def test_answers_are_objects(elsewhere: Path) -> None:
    traces = tbd_trace.open(SAMPLE)
    found = traces.check()
    assert isinstance(found, tbd_trace.Findings)
    assert repr(found).startswith("<Findings: ")
    assert str(found).rstrip().endswith(repr(found).removeprefix("<Findings: ")[:-1])
    assert found.frame.filter(verdict="finding").height > 0
    only = traces.check("OBS04", min_busy_pct=0.1)
    assert only.frame["rule"].unique().to_list() == ["OBS04"]
    compared = traces.diff(traces)
    assert isinstance(compared, tbd_trace.Comparison)
    assert repr(compared) == (
        f"<Comparison: B against A: {compared.verdict.word}, at the same work>"
    )
    assert compared.to_dict()["verdict"]["sentence"] == compared.verdict.sentence
    assert compared.verdict.sentence[1:] in str(compared)
    for answer in (found, compared):
        assert html.escape(str(answer)) in answer._repr_html_()
    assert repr(traces.run("kernel_summary")) == "<Result of kernel_summary: 22 rows>"


@pytest.mark.slow
def test_plots_and_reports_are_files(elsewhere: Path) -> None:
    traces = tbd_trace.open(SAMPLE)
    drawn = traces.plot("idle_causes")
    assert isinstance(drawn, tbd_trace.Drawing)
    assert drawn._repr_svg_() == drawn.save(elsewhere / "a.svg").read_text()
    assert drawn.save(elsewhere / "a.png").read_bytes()[1:4] == b"PNG"
    with pytest.raises(UsageError, match="rename it"):
        drawn.save(elsewhere / "a.gif")
    with pytest.raises(UsageError, match="trace_info has no plot"):
        traces.plot("trace_info")
    with pytest.raises(UsageError, match=r"ends in \.html"):
        traces.report(elsewhere / "page.txt")


@slow
def test_a_report_has_its_title(elsewhere: Path) -> None:
    memory = tbd_trace.open(SAMPLE.with_name("synthetic_memory") / "memory.jsonl")  # few sections
    page = memory.report(elsewhere / "page.html", "My runs")
    assert "<title>My runs" in page.read_text()


# old names of relations


@pytest.mark.slow
@pytest.mark.parametrize("old", one_in(len(RENAMED), RENAMED, then_one_in=5))
def test_old_relations_answer_with_a_note(elsewhere: Path, old: str) -> None:
    traces = tbd_trace.open(SAMPLE)
    with pytest.warns(DeprecationWarning, match=f"{old} is called {RENAMED[old]}"):
        found = traces.sql(f"SELECT * FROM {old}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = traces.sql(f"SELECT * FROM {RENAMED[old]}")
    columns = ["nvtx_range_id" if name == "annotation_id" else name for name in new.columns]
    assert found.columns == columns
    assert found.height == new.height


def test_a_users_query_on_an_old_relation_notes_the_new_one(elsewhere: Path) -> None:
    query = elsewhere / "own.sql"
    query.write_text(
        '/*\ntitle = "Own"\nneeds = ["nvtx_tree"]\n*/\n'
        "SELECT count(nvtx_range_id) AS ranges FROM nvtx_tree"
    )
    found = tbd_trace.open(SAMPLE).run(query)
    assert found.frame.item() == 288
    assert [note for note in found.notes if "nvtx_tree is called annotation_tree" in note]


# archives of release 0.1.0


@pytest.fixture
def old_archive(elsewhere: Path) -> Path:
    """Return an archive of the sample with the tables of layout v1."""
    traces = tbd_trace.open(SAMPLE)
    folder = elsewhere / "old"
    create(traces.database, traces.trace_ids, folder, redaction=Redaction(frozenset()))
    manifest = json.loads((folder / FILE).read_text())
    manifest["layout"] = "v1"
    files = []
    for file in manifest["files"]:
        path = folder / file["path"]
        if path.name == "trace.parquet":
            _rewrite(
                path,
                "SELECT * REPLACE (list_transform(holds, lambda t: "
                "if(t = 'annotation', 'nvtx_range', t)) AS holds) FROM read_parquet('{}')",
            )
        if path.name == "annotation.parquet":
            path = path.rename(path.with_name("nvtx_range.parquet"))
            _rewrite(
                path,
                "SELECT * EXCLUDE (source) RENAME (annotation_id AS nvtx_range_id) "
                "FROM read_parquet('{}')",
            )
        content = path.read_bytes()

        files.append(
            file
            | {
                "path": str(path.relative_to(folder)),
                "size_bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        )
    manifest["files"] = files
    (folder / FILE).write_bytes(_sealed(manifest))
    return folder


def _rewrite(path: Path, select: str) -> None:
    new = path.with_suffix(".new")
    duckdb.execute(f"COPY ({select.format(path)}) TO '{new}' (FORMAT parquet)")
    new.replace(path)


@pytest.mark.slow
def test_an_archive_of_the_first_release_answers(old_archive: Path) -> None:
    old, new = tbd_trace.open(old_archive), tbd_trace.open(SAMPLE)
    for query in Catalogue().metrics():
        if query.name in ("nvtx_summary", "layer_time", "iteration_timing", "nvtx_kernels"):
            assert old.query(query.name).equals(new.query(query.name)), query.name
    assert old.query("trace_info")["holds"].equals(new.query("trace_info")["holds"])


@pytest.mark.slow
def test_an_archive_of_the_first_release_is_not_copied(old_archive: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="create it again from its profiles"):
        extract(open_archive(str(old_archive)), tmp_path / "copy")


@pytest.mark.slow
def test_the_command_line_notes_the_new_name(elsewhere: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tbd_trace", "sql", "SELECT count(*) AS n FROM nvtx_tree"],
        env={**os.environ, "TBD_TRACE_DB": str(_database(elsewhere))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "note: the relation nvtx_tree is called annotation_tree" in done.stderr
    assert "288" in done.stdout


def _database(folder: Path) -> Path:
    database = Database(folder / "x.duckdb")
    database.ingest([SAMPLE])
    return database.path
