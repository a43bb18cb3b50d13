"""The command line, on the sample capture that ships with the project."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import made_nsys
import tbd_trace
from corpus import ROOT
from fast import one_in
from query_files import METRIC_NAMES
from tbd_trace.cli import main as cli
from tbd_trace.query import Catalogue, catalogue
from tbd_trace.query.catalogue import read_query
from tbd_trace.store import Database
from terminal import ENTRY_POINT, on_terminal, without_escapes

pytestmark = pytest.mark.usefixtures("elsewhere")

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
TIMELINE = SAMPLE / "timeline.sqlite"
OWN_QUERY = """/*
title = "Kernels of a stream"
question = "How many kernels ran on each stream?"
needs = ["kernel"]
[params.at_least]
doc = "fewest kernels"
default = 1
[columns.stream_id]
doc = "CUDA stream"
[columns.kernels]
doc = "kernels"
[columns.busy_ns]
unit = "ns"
doc = "sum of durations"
[plot]
kind = "bar"
x = "stream_id"
y = ["busy_ns"]
*/
SELECT stream_id, count(*) AS kernels, sum(duration_ns)::BIGINT AS busy_ns
FROM kernel GROUP BY stream_id
HAVING count(*) >= coalesce(getvariable('at_least'), 1) ORDER BY stream_id
"""

LONG = ["kernel_summary", "nvtx_projection", "nvtx_kernels", "nvtx_kernels --set by=range"]
LONG_ANSWERS = one_in(len(LONG), LONG)
FORMS = ["csv", "json", "parquet"]


@pytest.fixture
def db(sample_database: Database, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TBD_TRACE_DB", str(sample_database.path))
    return sample_database.path


@pytest.fixture
def own_query(tmp_path: Path) -> str:
    path = tmp_path / "streams.sql"
    path.write_text(OWN_QUERY)
    return str(path)


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], input=stdin)


def succeed(*arguments: object, stdin: str | None = None) -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(code: int, *arguments: object) -> str:
    """Run a command that must fail and return its one line of complaint."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
    assert line.startswith("error: ")
    return line


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*ENTRY_POINT, *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def oracle(statement: str) -> list[tuple[Any, ...]]:
    """Ask the sample's own SQLite file, without tbd-trace."""
    with sqlite3.connect(f"file:{TIMELINE}?mode=ro", uri=True) as connection:
        return connection.execute(statement).fetchall()


def kernels_in_sample() -> int:
    return int(oracle("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")[0][0])


# -- the program as a whole ---------------------------------------------------------------------


def test_version() -> None:
    assert succeed("--version") == f"tbd-trace {tbd_trace.__version__}\n"


def test_help_needs_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys\n"
        "from tbd_trace.cli.main import app\n"
        "heavy = {'polars', 'duckdb', 'pyarrow', 'matplotlib', 'sqlalchemy', 'numpy'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_file_s_kernels_are_read_without_libraries_that_start_slowly(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "tbd_trace", "query", "kernel_summary"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, str(TIMELINE)], capture_output=True, text=True, check=True, env=environment
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow" in imported
    assert not imported & {"numpy.ma", "pyarrow.compute", "pydantic", "rich.console"}


@pytest.mark.slow
@pytest.mark.parametrize("command", [("query", "kernel_summary"), ("sql", "FROM kernel LIMIT 3")])
def test_an_answer_from_a_known_trace_imports_no_pyarrow(
    db: Path, command: tuple[str, str]
) -> None:
    program = [sys.executable, "-X", "importtime", "-m", "tbd_trace", *command, "--format"]
    done = subprocess.run([*program, "csv"], capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "duckdb" in imported
    assert not imported & {"pyarrow", "numpy"}
    assert done.stdout.startswith("trace_id,")


def test_only_the_command_that_is_given_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    monkeypatch.setattr(
        cli, "_build", lambda name, build=cli._build: built.append(name) or build(name)
    )
    succeed("query", "--list")
    assert built == ["query"]
    built.clear()
    listed = succeed("--help").partition("Commands:\n")[2].partition("\n\n")[0]
    named = [line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)]
    assert built == named
    assert named[-3:] == ["archive", "export", "env"]
    assert run("querry").exit_code == 2
    assert "Did you mean 'query'" in run("querry").output


@pytest.mark.slow
def test_only_the_derived_relations_that_a_question_builds_on_are_parsed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path))
    for function in ("derived_relation", "derive_relations", "parameters_behind"):
        getattr(catalogue, function).cache_clear()
    parsed = []
    monkeypatch.setattr(
        catalogue, "read_query", lambda path: parsed.append(path.stem) or read_query(path)
    )
    succeed("query", "kernel_summary", str(TIMELINE))
    assert sorted(parsed) == ["counter_donor_trace", "kernel_summary"]
    catalogue.derived_relation.cache_clear()


@pytest.mark.parametrize(("command", "threads"), [("query", "1"), ("collect", None)])
def test_only_a_user_s_program_gets_threads_for_linear_algebra(
    command: str, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "set, so that it is restored")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    succeed(command, "--help")
    assert os.environ.get("OPENBLAS_NUM_THREADS") == threads


def test_without_a_command_help_is_shown() -> None:
    result = run()
    assert "Commands:" in result.output
    assert result.exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["query", "--nonsense"], ["ingest"], ["info", "--format", "xml"]]
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_bug_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("some\nthing")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "bug in tbd-trace: ZeroDivisionError: some thing" in line
    assert "TBD_TRACE_DEBUG=1" in line
    monkeypatch.setenv("TBD_TRACE_DEBUG", "1")
    with pytest.raises(SystemExit):
        cli.main()
    assert "Traceback" in capsys.readouterr().err


def test_interrupt_exits_with_130(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tbd_trace.api.open_traces", interrupted)
    assert run("info").exit_code == 130


@pytest.mark.slow
def test_reader_that_goes_away_is_no_error(db: Path) -> None:
    command = [*ENTRY_POINT, "sql", "FROM range(500000)", "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == b"range\n"
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 141


@pytest.mark.slow
def test_real_entry_point(db: Path) -> None:
    done = process("sql", "SELECT count(*) AS kernels FROM kernel", "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "kernels"
    bad = process("query", "no_such_query")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: no query 'no_such_query'")


# -- ingest -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ingest_says_what_it_did_and_is_idempotent() -> None:
    first = succeed("ingest", SAMPLE, "--db", "x.duckdb").splitlines()
    assert len(first) == 2
    assert all(" ingested " in line for line in first)
    (timeline,) = [line for line in first if "timeline.sqlite" in line]
    assert re.match(rf"[0-9a-f]{{12}}  nsys-sqlite +{kernels_in_sample():,} kernels  ", timeline)
    again = succeed("ingest", SAMPLE, SAMPLE, "--db", "x.duckdb").splitlines()
    assert all(" already there " in line for line in again)
    assert Path("x.duckdb").is_file()


@pytest.mark.slow
def test_ingest_goes_on_after_a_bad_file(tmp_path: Path) -> None:
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(TIMELINE.read_bytes()[:5000])
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    result = run("ingest", bad, text, tmp_path / "missing", TIMELINE)
    assert result.exit_code == 1
    assert result.stdout.count(" ingested ") == 1
    errors = result.stderr.splitlines()
    assert len(errors) == 3
    for line, name in zip(errors, ("bad.sqlite", "notes.txt", "missing"), strict=True):
        assert line.startswith("error: ")
        assert name in line
    assert "Traceback" not in result.output


def test_ingest_refuses_a_database_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_text("my notes")
    assert "choose another --db" in fail(1, "ingest", TIMELINE, "--db", "x.duckdb")
    assert (tmp_path / "x.duckdb").read_text() == "my notes"


# -- which traces -------------------------------------------------------------------------------


def test_no_database_says_what_to_do() -> None:
    for command in (["info"], ["sql", "SELECT 1"], ["query", "trace_info"]):
        line = fail(2, *command)
        assert "tbd-trace.duckdb" in line
        assert "tbd-trace ingest" in line


@pytest.mark.slow
def test_a_file_is_ingested_on_the_fly_into_the_cache(tmp_path: Path) -> None:
    statement = "SELECT count(*) AS kernels FROM kernel"
    shown = succeed("sql", statement, "--trace", TIMELINE, "--format", "csv")
    assert shown == f"kernels\n{kernels_in_sample()}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]
    moved = shutil.copy(TIMELINE, tmp_path / "another name.sqlite")
    succeed("sql", statement, "--trace", moved)
    assert len(list((tmp_path / "cache").rglob("kernel.parquet"))) == 1


@pytest.mark.slow
def test_traces_are_selected_by_id_prefix_or_name(db: Path) -> None:
    traces = json.loads(succeed("info", "--format", "json"))
    assert len(traces) == 2
    for trace in traces:
        for selector in (trace["trace_id"], trace["trace_id"][:6], trace["name"]):
            (found,) = json.loads(succeed("info", selector, "--format", "json"))
            assert found["trace_id"] == trace["trace_id"]
    assert "no trace" in fail(2, "info", "nonsense")
    assert "not both" in fail(2, "info", TIMELINE, traces[0]["trace_id"])


# -- info ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_info_lists_traces_and_tells_all_about_one(db: Path) -> None:
    listed = succeed("info").splitlines()
    assert len(listed) == 3
    assert listed[0].split()[:2] == ["trace_id", "name"]
    details = succeed("info", "synthetic_cnn/timeline.sqlite")
    assert re.search(rf"^kernels +{kernels_in_sample():,}$", details, re.M)
    for field in ("holds", "lacks", "notes", "sha256"):
        assert re.search(rf"^{field} ", details, re.M)


# -- query --------------------------------------------------------------------------------------


def test_list_names_every_query() -> None:
    listed = json.loads(succeed("query", "--list", "--format", "json"))
    files = sorted(path.stem for path in (ROOT / "queries" / "metrics").rglob("*.sql"))
    assert [row["name"] for row in listed] == files
    assert all(row["question"].endswith("?") for row in listed)
    assert [line.split()[0] for line in succeed("query", "--list").splitlines()[1:]] == files


@pytest.mark.parametrize("name", METRIC_NAMES)
def test_help_of_a_query_is_its_description(name: str) -> None:
    query = Catalogue().get(name)
    shown = succeed("query", query.name, "--help")
    assert shown == succeed("query", query.name, "--describe")
    flat = " ".join(shown.split())
    for text in (query.title, query.question, query.source, *query.relations):
        assert " ".join(text.split()).replace("- ", "-") in flat.replace("- ", "-")
    for head, column in query.columns.items():
        assert f" {head} ({column.unit}) " in flat if column.unit else f" {head} " in flat
    for head, param in query.params.items():
        assert f" {head}={param.default} " in flat
        assert all(str(choice) in flat for choice in param.choices or [])
    described = json.loads(succeed("query", query.name, "--describe", "--format", "json"))
    assert list(described["columns"]) == list(query.columns)


@pytest.mark.slow
def test_long_names_in_a_pipe_and_with_wide(tmp_path: Path) -> None:
    name = "void gemm<" + "float, " * 700 + ">(int)"
    texts = [{"id": 1, "value": name}, {"id": 2, "value": "gemm"}, {"id": 3, "value": name + "2"}]
    kernels = [made_nsys.kernel(demangledName=number, correlationId=number) for number in (1, 3)]
    path = made_nsys.write(
        tmp_path / "long.sqlite", {"StringIds": texts, made_nsys.KERNEL: kernels}
    )
    query = ("query", "kernel_summary", str(path))
    statement = ("sql", "SELECT name, duration_ns FROM kernel ORDER BY ALL", "--trace", str(path))
    for command in (query, statement):
        lines = succeed(*command).splitlines()
        assert len(lines) == 3
        assert max(map(len, lines)) <= 200
        cut = [re.findall(r"gemm<\S*", line)[0] for line in lines[1:]]
        assert len(set(cut)) == 2
        assert name + "2" in succeed(*command, "--wide")
        for form in ("csv", "json", "markdown"):
            shown = succeed(*command, "--format", form)
            assert shown.count("float, " * 700) == 2
            assert "…" not in shown
    code, screen = on_terminal(*query, columns=90, TBD_TRACE_CACHE=str(tmp_path / "cache"))
    assert code == 0
    assert max(map(len, without_escapes(screen).splitlines())) <= 90


def test_own_sql_file_against_plain_sqlite(db: Path, own_query: str) -> None:
    shown = succeed("query", own_query, "synthetic_cnn/timeline.sqlite", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(shown)))
    expected = oracle(
        "SELECT streamId, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL "
        "GROUP BY streamId ORDER BY streamId"
    )
    assert [tuple(map(int, row.values())) for row in rows] == expected


@pytest.mark.slow
def test_forms_agree(db: Path, own_query: str, tmp_path: Path) -> None:
    succeed("query", own_query, "-o", "answer.parquet")
    frame = pl.read_parquet("answer.parquet")
    assert json.loads(succeed("query", own_query, "--format", "JSON")) == frame.to_dicts()
    assert succeed("query", own_query, "--format", "csv") == frame.write_csv()
    assert succeed("query", own_query, "--format", "markdown").startswith("| stream_id |")
    assert run("query", own_query, "--format", "parquet").stdout_bytes.startswith(b"PAR1")
    assert {path.name for path in tmp_path.iterdir()} == {"answer.parquet", "streams.sql"}


@pytest.mark.slow
def test_output_file(db: Path, own_query: str) -> None:
    result = run("query", own_query, "-o", "answer.csv")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "note: wrote answer.csv\n"
    assert Path("answer.csv").read_text() == succeed("query", own_query, "--format", "csv")
    succeed("query", own_query, "-o", "answer.csv", "--format", "json")
    assert json.loads(Path("answer.csv").read_text())
    assert "unknown extension" in fail(2, "query", own_query, "-o", "answer.xlsx")
    assert "cannot be written" in fail(1, "query", own_query, "-o", "no/where.csv")


def test_that_a_file_cannot_be_written_is_found_out_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(
        "tbd_trace.cli.query._batches", lambda *_, **__: (asked.append(n) for n in "a")
    )
    question = ("query", "kernel_summary", str(TIMELINE))
    assert "cannot be written" in fail(1, *question, "-o", "no/where.csv")
    assert not asked


@pytest.mark.slow
def test_limit_shows_the_first_rows_and_says_so(db: Path) -> None:
    result = run("sql", "FROM range(5)", "--limit", "2", "--format", "csv")
    assert result.stdout == "range\n0\n1\n"
    assert result.stderr == "note: 2 of 5 rows shown; --limit 0 shows all\n"
    assert succeed("sql", "FROM range(200)", "--limit", "0").count("\n") == 201
    assert succeed("sql", "FROM range(200)").count("\n") == 201


@pytest.mark.slow
@pytest.mark.parametrize("asked", LONG_ANSWERS)
def test_of_a_large_trace_no_more_rows_are_computed_than_are_shown(
    db: Path, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = ("query", *asked.split(), "--format", "csv")
    whole = succeed(*query).splitlines(keepends=True)
    count = len(whole) - 1
    monkeypatch.setattr("tbd_trace.query.pages.LARGE_ROWS", 0)
    monkeypatch.setattr("tbd_trace.query.execution.LARGE_ROWS", 0)
    for limit in (1, count - 1):
        shown = run(*query, "--limit", str(limit))
        assert shown.stdout == "".join(whole[: limit + 1])
        assert shown.stderr == f"note: first {limit:,} rows shown; --limit 0 shows all\n"
    for limit in (0, count, count + 1):
        shown = run(*query, "--limit", str(limit))
        assert (shown.stdout, shown.stderr) == ("".join(whole), "")


def assert_same_rows(file: str, other: str) -> None:
    """Compare two files of rows, Parquet by its rows and all others byte by byte."""
    if file.endswith(".parquet"):
        assert pl.read_parquet(file).equals(pl.read_parquet(other))
    else:
        assert Path(file).read_bytes() == Path(other).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "form"), one_in(3, product(LONG, FORMS), then_one_in=5))
def test_all_rows_of_a_large_trace_are_those_of_a_small_one(
    db: Path, asked: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = ("query", *asked.split())
    succeed(*query, "-o", f"whole.{form}")
    monkeypatch.setattr("tbd_trace.query.pages.LARGE_ROWS", 0)
    monkeypatch.setattr("tbd_trace.query.execution.LARGE_ROWS", 0)
    # Each page takes time, and the other answers have up to 400 rows.
    monkeypatch.setattr("tbd_trace.query.pages.PAGE_ROWS", 3 if asked == LONG[0] else 10)
    succeed(*query, "-o", f"large.{form}")
    assert_same_rows(f"large.{form}", f"whole.{form}")
    if form != "parquet":
        shown = run(*query, "--format", form)
        assert (shown.stdout, shown.stderr) == (Path(f"whole.{form}").read_text(), "")


@pytest.mark.slow
@pytest.mark.parametrize("form", one_in(3, ["csv", "json", "parquet"]))
def test_sql_over_a_large_trace_gives_the_rows_of_a_small_one(
    db: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = "SELECT k.* FROM kernel k, range(200) ORDER BY ALL"
    succeed("sql", statement, "-o", f"whole.{form}")
    monkeypatch.setattr("tbd_trace.query.pages.LARGE_ROWS", 0)
    monkeypatch.setattr("tbd_trace.query.execution.LARGE_ROWS", 0)
    succeed("sql", statement, "-o", f"large.{form}")
    assert_same_rows(f"large.{form}", f"whole.{form}")
    assert run("sql", "SELECT no FROM kernel", "-o", f"not.{form}").exit_code == 2
    assert not Path(f"not.{form}").exists()


@pytest.mark.slow
def test_a_large_trace_without_rows_is_reported_as_a_small_one(
    db: Path, own_query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = ("query", own_query, "--set", "at_least=1000000", "--format", "csv")
    whole = run(*query)
    monkeypatch.setattr("tbd_trace.query.pages.LARGE_ROWS", 0)
    monkeypatch.setattr("tbd_trace.query.execution.LARGE_ROWS", 0)
    large = run(*query)
    assert (large.stdout, large.stderr) == (whole.stdout, "note: no rows\n")


@pytest.mark.slow
def test_a_plot_draws_all_rows_of_a_large_trace(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed("query", "gpu_activity", "--plot", "whole.svg")
    monkeypatch.setattr("tbd_trace.query.pages.LARGE_ROWS", 0)
    monkeypatch.setattr("tbd_trace.query.execution.LARGE_ROWS", 0)
    succeed("query", "gpu_activity", "--limit", "2", "--plot", "large.svg")
    assert Path("whole.svg").read_bytes() == Path("large.svg").read_bytes()


def test_parameters(db: Path, own_query: str) -> None:
    assert run("query", own_query, "--set", "at_least=1000000").stderr == "note: no rows\n"
    assert "NAME=VALUE" in fail(2, "query", own_query, "--set", "at_least")
    assert "no parameter 'nope'" in fail(2, "query", own_query, "--set", "nope=1")
    assert "at_least=x" in fail(2, "query", own_query, "--set", "at_least=x")


def test_query_that_is_not_there(db: Path) -> None:
    assert "trace_info" in fail(2, "query", "trace_inf")
    assert "cannot be read" in fail(2, "query", "missing.sql")
    assert "--list" in fail(2, "query")


def test_wrong_sql_is_one_line_of_usage(db: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("SELECT nonsense FROM kernel")
    result = run("query", "bad.sql")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "nonsense" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_trace_that_cannot_answer_exits_with_3(db: Path, tmp_path: Path) -> None:
    header = '/*\ntitle = "x"\nneeds = ["memory_event"]\n*/\n'
    (tmp_path / "x.sql").write_text(f"{header}SELECT * FROM memory_event")
    lacking = [
        trace["trace_id"]
        for trace in json.loads(succeed("info", "synthetic_cnn/metrics.csv", "--format", "json"))
    ]
    line = fail(3, "query", "x.sql", *lacking)
    assert "nsys profile" in line


@pytest.mark.slow
def test_plot(db: Path, own_query: str) -> None:
    result = run("query", own_query, "--plot", "plot.svg", "--format", "csv")
    assert result.exit_code == 0
    assert result.stdout == succeed("query", own_query, "--format", "csv")
    assert result.stderr == "note: wrote plot.svg\n"
    assert "<svg" in Path("plot.svg").read_text()
    assert ".svg, .png, .pdf" in fail(2, "query", own_query, "--plot", "plot.gif")
    assert "has no plot" in fail(2, "query", "trace_info", "--plot", "plot.svg")


def test_names_of_queries_are_completed() -> None:
    environment = os.environ | {
        "_TBD_TRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": "tbd-trace query trace_",
        "COMP_CWORD": "2",
    }
    assert "trace_info" in process(env=environment).stdout.split()


# -- sql ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sql_from_an_argument_or_standard_input(db: Path) -> None:
    statement = "SELECT count(DISTINCT stream_id) AS streams FROM gpu_op"
    assert succeed("sql", statement) == succeed("sql", stdin=statement)
    assert succeed("sql", statement) == succeed("sql", "-", stdin=statement + ";\n")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP VIEW kernel",
        "CREATE TABLE x AS SELECT 1",
        "COPY (SELECT 1) TO 'x.csv'",
        "ATTACH 'x.duckdb'",
        "INSERT INTO trace SELECT * FROM trace",
        "SELECT 1; DELETE FROM trace",
        "",
    ],
)
def test_sql_only_reads(db: Path, statement: str, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in db.parent.rglob("*")}
    fail(2, "sql", statement)
    assert {path: path.stat().st_mtime_ns for path in db.parent.rglob("*")} == before
    assert not list(tmp_path.iterdir())


# -- terminals ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_table_on_a_terminal_fits_and_is_cut_after_50_rows(db: Path) -> None:
    statement = "SELECT range AS n, repeat('kernel', 20) || range AS kernel_name FROM range(60)"
    code, screen = on_terminal("sql", statement, NO_COLOR="1")
    shown = without_escapes(screen)
    assert code == 0
    assert "50 of 60 rows shown" in shown
    table = [line for line in shown.split("\n") if "kernelkernel" in line]
    assert len(table) == 50
    assert all("…" in line for line in table)
    assert all(len(line) <= 80 for line in table)
    assert not re.search(r"\x1b\[[0-9;]*m", screen.split("n   kernel_name")[-1])


@pytest.mark.slow
def test_colour_on_a_terminal(db: Path) -> None:
    _, screen = on_terminal("sql", "FROM range(2)")
    assert re.search(r"\x1b\[[0-9;]*m", screen)


@pytest.mark.slow
def test_parquet_is_kept_from_a_terminal(db: Path) -> None:
    code, screen = on_terminal("sql", "FROM range(2)", "--format", "parquet")
    assert code == 2
    assert "-o FILE" in screen
    assert "PAR1" not in screen


@pytest.mark.slow
def test_shell(db: Path) -> None:
    keys = (
        "SELECT 40 +\n2 AS answer;\nSELECT nonsense;\nDROP VIEW kernel;\n.tables\n"
        ".schema kernel\n.nonsense\nSET VARIABLE x = 7;\nSELECT getvariable('x') AS x;\n.quit\n"
    )
    code, screen = on_terminal("sql", keys=keys, NO_COLOR="1", TERM="dumb")
    assert code == 0
    assert re.search(r"answer\s+42", screen)
    assert "nonsense" in screen
    assert "only statements that read" in screen
    assert re.search(r"\bannotation\b", screen)
    assert re.search(r"duration_ns\s+BIGINT", screen)
    assert re.search(r"\nx\s+7\b", screen)
    assert "Traceback" not in screen


# -- doctor -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_doctor(db: Path) -> None:
    findings = {row["check"]: row for row in json.loads(succeed("doctor", "--format", "json"))}
    for check in ("python", "duckdb", "polars", "pyarrow", "nsys", "nvprof", "ncu", "gpu"):
        assert findings[check]["status"] in {"ok", "limited", "missing"}
    assert findings["database"]["found"].startswith(f"{db} (2 traces)")
    assert "(not made yet)" in findings["cache"]["found"]
    assert "GiB free" in findings["cache"]["found"]
    assert succeed("doctor").splitlines()[0].split() == ["check", "status", "found", "advice"]


def test_threads_and_memory_are_bounded(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TBD_TRACE_THREADS", "TBD_TRACE_MEMORY_LIMIT"):
        monkeypatch.setenv(variable, "1")  # is put back at the end
        monkeypatch.delenv(variable)
    asked = "SELECT current_setting('threads'), current_setting('memory_limit')"
    said = succeed("--threads", "1", "--memory-limit", "300MiB", "sql", asked, "--format", "csv")
    assert said.splitlines()[1] == "1,300.0 MiB"


def test_a_memory_limit_that_is_none(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBD_TRACE_MEMORY_LIMIT", "plenty")
    assert "TBD_TRACE_MEMORY_LIMIT=plenty: " in fail(2, "query", "kernel_summary")


def test_too_little_memory(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBD_TRACE_MEMORY_LIMIT", "1MB")
    assert "raise --memory-limit" in fail(1, "query", "layer_time")
