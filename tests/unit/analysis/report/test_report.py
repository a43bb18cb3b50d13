"""What a report says is what the queries say, and a trace that cannot tell fails nothing."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import made_nsys
import tbd_trace
from corpus import ROOT
from drawing import undrawn
from fast import slow
from html_page import Reader, csv_of
from tbd_trace.analysis.checks import evaluate
from tbd_trace.analysis.report.drawing import plot_block
from tbd_trace.analysis.report.page import (
    Figure,
    Figures,
    Findings,
    Note,
    Page,
    Plot,
    Section,
    Table,
    render_page,
)
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.analysis.report.sections import build_page, report
from tbd_trace.api import Traces
from tbd_trace.cli import main as cli
from tbd_trace.errors import CannotAnswerError
from tbd_trace.present import csv as csv_form
from tbd_trace.present.values import NULL
from tbd_trace.query import Catalogue, execute
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
GOLDEN = ROOT / "tests" / "golden"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
CAPTURE_QUERY = "sql: SELECT capture FROM trace"
CHECK = "tbd-trace check"
OTHERS = {CAPTURE_QUERY, CHECK, "tbd-trace why"}


@pytest.fixture(scope="module")
def sample(sample_database: Database) -> Traces:
    return Traces(sample_database, sample_database.trace_ids())


@pytest.fixture(scope="module")
def page(sample: Traces) -> Page:
    return build_page(sample)


@pytest.fixture(scope="module")
def reader(page: Page) -> Reader:
    return Reader(render_page(page))


def section(page: Page, name: str) -> Section:
    return next(found for found in page.sections if found.id == name)


def figures(page: Page) -> dict[str, Figure]:
    blocks = [block for block in section(page, "headline").blocks if isinstance(block, Figures)]
    return {figure.label: figure for block in blocks for figure in block.figures}


def texts(section: Section, kind: str) -> list[str]:
    return [b.text for b in section.blocks if isinstance(b, Note) and b.kind == kind]


def with_rows(page: Page) -> Iterator[Table | Plot]:
    for found in page.sections:
        yield from (block for block in found.blocks if isinstance(block, Table | Plot))


def golden(name: str) -> dict[str, str]:
    """Return the first row of an answer that was worked out without the query."""
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return next(csv.DictReader(file))


@pytest.mark.slow
def test_every_table_and_plot_is_the_answer_of_the_query_that_it_names(
    page: Page, sample: Traces
) -> None:
    compared = 0
    alone: dict[str, pl.DataFrame] = {}  # some have a plot and a table
    for block in with_rows(page):
        if block.query in OTHERS:
            continue
        name, *assignments = block.query.split(" ")
        parameters = dict(assignment.split("=") for assignment in assignments)
        if block.query not in alone:
            query = Catalogue().get(name)
            alone[block.query] = execute(sample.database, query, sample.trace_ids, parameters).frame
        assert block.frame is not None
        assert block.frame.equals(alone[block.query]), block.query
        compared += 1
    assert compared > 20


@pytest.mark.slow
def test_every_csv_of_the_file_is_such_an_answer(page: Page, reader: Reader) -> None:
    carried = csv_of(reader)
    answers = {block.query: block.frame for block in with_rows(page)}
    assert len(carried) == len(answers)
    for query, frame in answers.items():
        assert frame is not None
        name = re.sub("[^a-z0-9_]+", "-", query, flags=re.IGNORECASE)
        assert carried[f"{name}.csv"].encode() == csv_form.render(frame)


@pytest.mark.slow
def test_the_sections_are_those_that_the_contents_name(reader: Reader) -> None:
    ids = [attributes.get("id") for attributes in reader.all("section")]
    links = [link["href"] for link in reader.all("a") if (link["href"] or "").startswith("#")]
    assert ids == [
        *("why", "headline", "findings", "what-ran", "iterations", "step", "utilization"),
        *("layers", "kernels", "low-utilization", "roofline", "occupancy", "memory-use"),
        "memory",
    ]
    assert [f"#{name}" for name in ids] == links[1 : len(ids) + 1]  # after the skip link


@pytest.mark.slow
def test_the_headline_says_what_was_worked_out(page: Page) -> None:
    headline = figures(page)
    busy = golden("compute_util")
    assert headline["GPU busy"].value == f"{float(busy['gpu_busy_pct']):.3g}"
    throughput = golden("throughput")
    assert headline["Throughput"].value == f"{float(throughput['unprofiled_samples_per_s']):,.0f}"
    timing = golden("iteration_summary")
    assert timing["measure"] == "period_ns"
    figure = headline["Iteration time (mean)"]
    assert (figure.value, figure.unit) == (f"{float(timing['mean_ns']) / 1e6:.3g}", "ms")
    assert timing["stability"] in figure.detail
    dominant = golden("dominant_layer")
    assert headline["Dominant layer"].value == f"{float(dominant['share_pct']):.3g}"
    assert headline["Dominant layer"].detail.startswith(dominant["layer"])
    fp32 = golden("fp32_util")
    assert fp32["evidence"] == "counter"
    assert headline["FP32 utilization, counted"].value == f"{float(fp32['busy_pct']):.3g}"
    occupancy = golden("occupancy.trace")
    assert headline["Occupancy"].value == f"{float(occupancy['achieved_pct']):.3g}"


def test_every_headline_number_has_its_query_and_evidence(page: Page) -> None:
    for figure in figures(page).values():
        assert figure.query
        assert figure.link in {found.id for found in page.sections}
        if figure.value != NULL:
            assert figure.evidence or "without a profiler" in figure.detail, figure.label


@pytest.mark.slow
def test_findings_are_those_of_check(page: Page, sample: Traces) -> None:
    found = section(page, "findings")
    (table,) = [block for block in found.blocks if isinstance(block, Table)]
    evaluated = evaluate(sample)
    assert table.frame.equals(evaluated)
    (shown,) = [block for block in found.blocks if isinstance(block, Findings)]
    rows = evaluated.filter(pl.col("verdict") == "finding").to_dicts()
    assert [(f.title, f.severity, f.reason, f.advice) for f in shown.findings] == [
        (row["title"], row["severity"], row["reason"], row["advice"]) for row in rows
    ]
    assert all(row["rule"] in f.evidence for f, row in zip(shown.findings, rows, strict=True))


@pytest.mark.slow
def test_numbers_of_several_processes_are_not_averaged(tmp_path: Path) -> None:
    spans = {100: [(0, 100), (900, 1000)], 200: [(0, 400), (600, 1000)]}  # busy 20 % and 80 %
    kernels = [
        made_nsys.kernel(pid, start=start, end=end, correlationId=number)
        for pid, both in spans.items()
        for number, (start, end) in enumerate(both, 1)
    ]
    tables = {"StringIds": made_nsys.strings(), made_nsys.KERNEL: kernels}
    database = Database(tmp_path / "two.duckdb")
    database.ingest([made_nsys.write(tmp_path / "two.sqlite", tables)])
    page = build_page(Traces(database, database.trace_ids()), draw=undrawn)
    busy = figures(page)["GPU busy"]
    assert busy.value == "20 to 80"
    assert "least and largest of 2, by process and GPU" in busy.detail


def test_what_has_too_many_rows_is_not_drawn() -> None:
    query = Catalogue().get("iteration_timing")
    times = pl.Series([1.0] * 5000)
    frame = pl.DataFrame(dict.fromkeys(query.columns, times)).with_columns(
        trace_id=pl.lit("t"), in_window=pl.lit(True)
    )
    block = plot_block(Answer(query, {"batch": "1"}, frame), {"t": "run"})
    assert isinstance(block, Note)
    assert "5,000 rows are too many; `tbd-trace query iteration_timing --set batch=1`" in block.text
    assert isinstance(plot_block(Answer(query, {}, frame.head(50)), {"t": "run"}), Plot)


def test_what_is_made_up_says_so_first(page: Page) -> None:
    assert "not measured" in texts(section(page, "headline"), "note")[0]


@pytest.fixture(scope="module")
def counters(sample_database: Database) -> Page:
    """Return what a report of counters alone says."""
    found = sample_database.resolve(["synthetic_cnn/metrics.csv"])
    return build_page(Traces(sample_database, found), draw=undrawn)


@pytest.mark.slow
def test_counters_alone_tell_what_they_can_and_why_not_the_rest(counters: Page) -> None:
    for name in ("iterations", "step", "layers"):
        found = section(counters, name)
        assert not [block for block in found.blocks if isinstance(block, Table)]
        assert "timeline" in texts(found, "missing")[0]
    assert [b for b in section(counters, "kernels").blocks if isinstance(b, Table)]
    headline = figures(counters)
    assert headline["GPU busy"].value == NULL
    assert headline["FP32 utilization, counted"].value != NULL
    assert "needs a timeline" in Reader(render_page(counters)).said()


@pytest.mark.slow
def test_what_several_queries_lack_is_said_once(counters: Page) -> None:
    missing = texts(section(counters, "iterations"), "missing")
    assert len(missing) == 1
    assert missing[0].startswith(
        "each of `iteration_timing`, `iteration_summary` and `throughput` needs a timeline"
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Database:
    """Return a trace whose kernel, range and file names are HTML."""
    tables = made_nsys.profile()
    for row in tables["StringIds"]:
        row["value"] = f"{HOSTILE}{row['value']}"
    for row in tables.get("NVTX_EVENTS", []):
        row["text"] = HOSTILE if row.get("text") else None
    database = Database(tmp_path / "hostile.duckdb")
    database.ingest([made_nsys.write(tmp_path / "<b>&amp;.sqlite", tables)])
    return database


@pytest.mark.slow
def test_names_from_a_trace_are_no_html(hostile: Database) -> None:
    content = report(Traces(hostile, hostile.trace_ids()), f"Title {HOSTILE}")
    reader = Reader(content)
    assert reader.scripts_and_handlers() == (1, [])
    assert not reader.all("img")
    assert not reader.all("b") or all(not a for a in reader.all("b"))
    assert HOSTILE in reader.said()


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["report", *arguments])


@pytest.fixture
def kernel_file(elsewhere: Path) -> Path:
    tables = {"StringIds": made_nsys.strings(), made_nsys.KERNEL: [made_nsys.kernel()]}
    return made_nsys.write(elsewhere / "run.sqlite", tables)


@pytest.fixture(scope="module")
def written(
    sample_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Result, bytes]:
    """Return what the command says, and the page that it writes on two CPUs."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tbd_trace.runtime.worker_process.cpus", lambda: 2)
        result = invoke(
            *("--db", str(sample_database.path), "-o", str(path), "--title", "My <run>")
        )
    assert result.exit_code == 0, result.output
    return result, path.read_bytes()


@pytest.mark.slow
def test_the_command_writes_a_page(written: tuple[Result, bytes]) -> None:
    result, content = written
    assert "page.html (" in result.stderr
    assert result.stderr.startswith("note: wrote ")
    assert ("h1", "My <run>") in Reader(content).texts


@slow
def test_a_page_is_the_same_on_one_cpu(page: Page, written: tuple[Result, bytes]) -> None:
    # The plots of `page` are drawn in this process, as with one CPU.
    _, content = written
    assert content == render_page(replace(page, title="My <run>"))
    assert b"<svg" in content


@pytest.mark.slow
def test_without_a_name_nothing_is_replaced(
    kernel_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Others test the content; this one is about the file.
    monkeypatch.setattr("tbd_trace.runtime.worker_process.cpus", lambda: 1)
    monkeypatch.setattr(
        "tbd_trace.analysis.report.sections.report",
        lambda _, title, *__, **___: f"page {title}".encode(),
    )
    assert invoke(str(kernel_file)).exit_code == 0
    first = Path("report.html").read_bytes()
    again = invoke(str(kernel_file))
    assert again.exit_code == 2
    assert "report.html: exists" in again.stderr
    assert Path("report.html").read_bytes() == first
    named = invoke(str(kernel_file), "-o", "report.html", "--title", "other")
    assert named.exit_code == 0
    assert b"other" in Path("report.html").read_bytes()


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("report.pdf", "choose a name that ends in .html"),
        (".", "is a directory"),
        ("missing/report.html", "there is no directory missing"),
        ("x" * 300 + ".html", "cannot be written"),
    ],
)
def test_a_place_that_will_not_do_is_refused_before_the_work(
    kernel_file: Path, output: str, said: str
) -> None:
    result = invoke(str(kernel_file), "-o", output)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert {path.name for path in kernel_file.parent.iterdir()} == {"run.sqlite"}


def test_without_a_trace_there_is_no_page(elsewhere: Path) -> None:
    Database(elsewhere / "empty.duckdb").ingest([])
    result = invoke("--db", "empty.duckdb")
    assert result.exit_code in (2, 3)
    assert "ingest" in result.stderr
    assert not Path("report.html").exists()
    empty = Traces(Database(elsewhere / "empty.duckdb"), [])
    with pytest.raises(CannotAnswerError, match="no trace"):
        report(empty)


def test_what_is_no_profile_leaves_no_page(elsewhere: Path) -> None:
    (elsewhere / "text.sqlite").write_text("no profile")
    result = invoke("text.sqlite")
    assert result.exit_code == 1
    assert not Path("report.html").exists()


@pytest.mark.slow
def test_the_page_is_small_and_says_what_made_it(page: Page) -> None:
    content = render_page(page)
    assert len(content) < 1_500_000
    assert tbd_trace.__version__.encode() in content
