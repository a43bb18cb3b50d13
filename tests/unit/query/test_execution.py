"""Running queries: parameters, what cannot be answered, reading only, users' own files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import made_nsys
from all_answers import answers
from corpus import ROOT
from fast import one_in
from query_files import METRIC_NAMES
from tbd_trace.api import Traces, find_query, open_traces
from tbd_trace.errors import CannotAnswerError, TbdTraceError, UsageError
from tbd_trace.model.canonical_tables import long_tables
from tbd_trace.query import Catalogue, Result, connect, execute, execute_reading, prepare, sql
from tbd_trace.query.catalogue import read_query
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Return the sample capture and a file without much in one database."""
    directory = tmp_path_factory.mktemp("session")
    little = {"StringIds": made_nsys.strings(), made_nsys.KERNEL: [made_nsys.kernel()]}
    made_nsys.write(directory / "little.sqlite", little)
    made = Database(directory / "made.duckdb")
    made.ingest([SAMPLE, directory / "little.sqlite"])
    return made


@pytest.fixture(scope="module")
def little(database: Database) -> str:
    return database.resolve(["little.sqlite"])[0]


@pytest.fixture(scope="module")
def sample(database: Database) -> list[str]:
    return database.resolve(["synthetic_cnn/timeline.sqlite", "synthetic_cnn/metrics.csv"])


def ask(
    database: Database, name: str, traces: list[str] | None = None, **parameters: str
) -> list[dict[str, Any]]:
    return execute(database, Catalogue().get(name), traces, parameters).frame.to_dicts()


# parameters


@pytest.mark.slow
def test_parameters_change_the_answer(database: Database, sample: list[str]) -> None:
    assert len(ask(database, "fp32_util", sample)) < len(
        ask(database, "fp32_util", sample, by="layer")
    )


@pytest.mark.slow
def test_parameters_of_the_relations_below_are_known(database: Database, sample: list[str]) -> None:
    rows = ask(database, "compute_util", sample, window="trace")
    assert {row["measured_over"] for row in rows} == {"whole trace"}
    result = execute(database, Catalogue().get("compute_util"), sample, {"min_confidence": "0.75"})
    assert result.parameters == {"min_confidence": 0.75}


@pytest.mark.parametrize(
    ("query", "setting", "says"),
    [
        ("fp32_util", "bye=layer", ["bye", "by", "window"]),
        ("trace_info", "by=layer", ["by", "it has none"]),
        ("fp32_util", "by=moon", ["by=moon", "trace, iteration, layer, kernel"]),
        ("throughput", "batch_size=many", ["batch_size=many", "int"]),
        ("throughput", "batch_size=32.5", ["batch_size=32.5", "int"]),
        ("iteration_summary", "min_confidence=much", ["min_confidence=much", "number"]),
        ("iteration_summary", "min_confidence=nan", ["min_confidence=nan"]),
        ("iteration_summary", "min_confidence=inf", ["min_confidence=inf"]),
        ("iteration_summary", "iteration_pattern=step(", ["iteration_pattern", "step("]),
        ("dominant_layer", "layer_pattern=[", ["layer_pattern", "["]),
    ],
)
def test_what_a_parameter_may_not_be(
    database: Database, sample: list[str], query: str, setting: str, says: list[str]
) -> None:
    name, value = setting.split("=")
    with pytest.raises(UsageError) as raised:
        ask(database, query, sample, **{name: value})
    for text in says:
        assert text in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["it's", "'; DROP TABLE kernel; --", 'a"b', "日本", "\\d+"])
def test_texts_are_passed_whole(database: Database, sample: list[str], value: str) -> None:
    result = execute(
        database, Catalogue().get("dominant_layer"), sample, {"layer_pattern": f"^{value}$"}
    )
    assert result.parameters == {"layer_pattern": f"^{value}$"}
    assert {row["layer"] for row in result.frame.to_dicts()} == {None}


@pytest.mark.slow
def test_iteration_patterns_are_regular_expressions(database: Database, sample: list[str]) -> None:
    rows = ask(database, "iteration_timing", sample, iteration_pattern="no such range")
    assert all(row["confidence"] < 1 for row in rows)  # nothing names an iteration


# what cannot be answered


@pytest.mark.slow
def test_a_question_that_no_trace_can_answer_says_how_to_collect(
    database: Database, little: str
) -> None:
    for query, what in (
        ("nvtx_kernels", "NVTX"),
        ("nvtx_projection", "NVTX"),
        ("iteration_timing", "iteration"),
    ):
        with pytest.raises(CannotAnswerError) as raised:
            ask(database, query, [little])
        assert raised.value.exit_code == 3
        assert what in str(raised.value)
        assert "collect" in str(raised.value) or "--set" in str(raised.value)
        assert "\n" not in str(raised.value)


def test_some_traces_cannot_answer(database: Database, sample: list[str], little: str) -> None:
    """The others do, and a note names those that cannot."""
    result = execute(database, Catalogue().get("nvtx_kernels"), [*sample, little])
    assert set(result.frame.drop_nulls("range_path")["trace_id"]) == {sample[0]}
    [note] = [note for note in result.notes if "little.sqlite" in note]
    assert "NVTX" in note
    assert not any("timeline.sqlite" in note for note in result.notes)


def test_all_can_answer_without_notes(database: Database, sample: list[str], little: str) -> None:
    result = execute(database, Catalogue().get("kernel_summary"), [*sample, little])
    assert result.notes == []
    assert set(result.frame["trace_id"]) == {sample[0], little}


def test_only_the_selected_traces_are_asked(database: Database, little: str) -> None:
    assert {row["trace_id"] for row in ask(database, "kernel_summary", [little])} == {little}


def test_no_trace_at_all(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswerError, match="ingest"):
        ask(Database(tmp_path / "none.duckdb"), "kernel_summary")


@pytest.fixture(scope="module")
def answers_of_little(database: Database, little: str) -> dict[str, Result | CannotAnswerError]:
    return answers(database, METRIC_NAMES, [little])


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(3, METRIC_NAMES, then_one_in=2))
def test_every_metric_answers_or_says_why_not(
    answers_of_little: dict[str, Result | CannotAnswerError], name: str
) -> None:
    """A file with a single kernel gives rows or a refusal that says what to collect."""
    found = answers_of_little[name]
    if isinstance(found, CannotAnswerError):
        assert "\n" not in str(found)
    else:
        assert found.frame.columns == list(Catalogue().get(name).columns)


def test_names_limit_what_a_connection_sees(database: Database) -> None:
    """The long tables are always there: they tell how large the traces are."""
    with connect(database, names={"trace", "memcpy", "kernel_classes"}) as connection:
        views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal")
        seen = {name for (name,) in views.fetchall()}
    assert seen == {"memcpy", "kernel_classes", *long_tables()}


def test_a_name_misspelled_in_a_query_of_ones_own(database: Database, tmp_path: Path) -> None:
    own = tmp_path / "own.sql"
    own.write_text("SELECT count(*) AS n FROM memcpi")
    with pytest.raises(UsageError, match=r"Did you mean .*memcpy"):
        execute(database, Catalogue().load(own))


def test_unknown_queries_suggest_known_ones() -> None:
    with pytest.raises(UsageError, match="fp32_util"):
        find_query("fp32_utils")


# reading only

READS = [
    "SELECT count(*) AS n FROM kernel",
    "FROM kernel SELECT count(*) AS n",
    "WITH k AS (FROM kernel) SELECT count(*) AS n FROM k",
    "SELECT count(*) AS n FROM kernel;",
    "SET VARIABLE x = 3; SELECT getvariable('x') AS n",
    "DESCRIBE kernel",
    "SUMMARIZE kernel",
    "EXPLAIN SELECT 1",
    "PRAGMA table_info('kernel')",
    "-- a comment\nSELECT 1 AS n",
]
WRITES = [
    "COPY kernel TO '{out}'",
    "COPY (SELECT 1) TO '{out}' (FORMAT csv)",
    "SELECT 1; COPY kernel TO '{out}'",
    "EXPLAIN ANALYZE COPY kernel TO '{out}'",
    "explain analyze COPY kernel TO '{out}'",
    "EXPLAIN (ANALYZE) COPY kernel TO '{out}'",
    "EXPLAIN (ANALYZE true, FORMAT json) COPY kernel TO '{out}'",
    "/* note */ EXPLAIN ANALYZE COPY kernel TO '{out}'",
    "-- note\nEXPLAIN ANALYZE COPY kernel TO '{out}'",
    "EXPLAIN /* note */ ANALYZE COPY kernel TO '{out}'",
    "EXPLAIN -- note\n ANALYZE COPY kernel TO '{out}'",
    "EXPLAIN(ANALYZE) COPY kernel TO '{out}'",
    "EXPORT DATABASE '{out}'",
    "ATTACH '{out}' AS other",
    "INSTALL json",
    "INSERT INTO trace VALUES (1)",
    "CREATE TABLE mine AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW kernel AS SELECT 1",
    "DROP VIEW kernel",
    "DELETE FROM kernel",
    "UPDATE kernel SET name = 'x'",
    "ALTER TABLE kernel RENAME TO k",
    "PREPARE p AS SELECT 1",
    "CALL pragma_version()",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
]


@pytest.fixture(scope="module")
def connection(database: Database) -> Iterator[duckdb.DuckDBPyConnection]:
    """Return one connection for all statements: reading must not change it."""
    with connect(database) as opened:
        yield opened


@pytest.mark.parametrize("statement", READS)
def test_statements_that_read(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    assert execute_reading(connection, statement).height >= 1


@pytest.mark.parametrize("statement", WRITES)
def test_statements_that_write_are_refused(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, statement: str
) -> None:
    with pytest.raises(UsageError, match="only statements that read"):
        execute_reading(connection, statement.format(out=tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("statement", [*WRITES[:2], *WRITES[7:8], "SELECT 1; DROP VIEW kernel"])
def test_a_user_s_file_may_not_write_either(
    database: Database, tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "mine.sql"
    path.write_text(statement.format(out=tmp_path / "out"))
    with pytest.raises(UsageError, match="only statements that read"):
        execute(database, find_query(str(path)))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "statement",
    ["", "   ", ";", "-- nothing", "SELEC 1", "SELECT * FROM nothing_there", "SELECT x("],
)
def test_wrong_sql_is_one_clear_error(
    connection: duckdb.DuckDBPyConnection, statement: str
) -> None:
    with pytest.raises(UsageError):
        execute_reading(connection, statement)


@pytest.mark.slow
def test_sql_computes_the_derived_relations_that_it_names(
    database: Database, sample: list[str]
) -> None:
    rows = sql(database, "SELECT count(*) AS n FROM iteration WHERE in_window", sample).rows()
    # Of twelve iterations of 2.6 ms the first two (8.2 and 3.1 ms) are warm-up. The last counts:
    # 37.5 us between ranges are 1.5 % of the time.
    assert rows == [(10,)]


@pytest.mark.slow
def test_relations_are_computed_once(database: Database) -> None:
    with connect(database) as connection:
        prepare(connection, ["iteration"])
        connection.execute("DELETE FROM iteration")
        prepare(connection, ["analysis_window"])
        assert execute_reading(connection, "FROM iteration").height == 0


# a user's own file


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own query.sql"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_file_without_header(database: Database, sample: list[str], tmp_path: Path) -> None:
    path = own(tmp_path, "SELECT name, count(*) AS n FROM op_scope GROUP BY name ORDER BY name;\n")
    query = find_query(str(path))
    assert (query.name, query.title, query.columns) == ("own query", "own query", {})
    assert execute(database, query, sample).frame.columns == ["name", "n"]


def test_a_file_with_a_comment_that_is_no_header(database: Database, tmp_path: Path) -> None:
    path = own(tmp_path, "/* Just a note: counts traces. */\nSELECT count(*) AS n FROM trace")
    assert execute(database, find_query(str(path))).frame.rows() == [(3,)]


HEADER = """/*
title = "Kernels of a stream"
needs = ["kernel"]
[params.stream]
doc = "which stream"
default = 7
choices = [7, 8]
[columns.n]
doc = "kernels"
*/
SELECT count(*) AS n FROM kernel WHERE stream_id = coalesce(getvariable('stream'), 7)
"""


@pytest.mark.parametrize("begin", ["", "\ufeff", "\n\n  "])
def test_a_file_with_header(database: Database, little: str, tmp_path: Path, begin: str) -> None:
    query = find_query(str(own(tmp_path, begin + HEADER)))
    assert query.title == "Kernels of a stream"
    assert execute(database, query, [little]).frame.rows() == [(1,)]
    assert execute(database, query, [little], {"stream": "8"}).frame.rows() == [(0,)]
    with pytest.raises(UsageError, match="not among 7, 8"):
        execute(database, query, [little], {"stream": "9"})


def test_several_statements_in_a_file(database: Database, tmp_path: Path) -> None:
    path = own(tmp_path, "SET VARIABLE least = 2;\nSELECT getvariable('least') AS n;\n")
    assert execute(database, find_query(str(path))).frame.rows() == [(2,)]


@pytest.mark.parametrize(
    "header",
    [
        'title = "unclosed',
        'title = "a"\nneed = ["kernel"]',
        'title = "a"\nneeds = "kernel"',
        'title = "a"\nneeds = [1]',
        'title = "a"\nneeds = ["kernels"]',
        'title = "a"\noptional = "kernel"',
        'title = "a"\nparams = 3',
        'title = "a"\n[params]\nby = "x"',
        'title = "a"\n[params.by]\ndoc = "no default"',
        'title = "a"\n[columns]\nn = 3',
        'title = "a"\n[columns.n]\nunit = "ns"',
        'title = "a"\nplot = 3',
        'title = "a"\n[plot]\nkind = "bar"',
        "title = 3",
        'name = "other"',
    ],
)
def test_a_broken_header_is_one_clear_error(
    database: Database, tmp_path: Path, header: str
) -> None:
    path = own(tmp_path, f"/*\n{header}\n*/\nSELECT 1 AS n")
    with pytest.raises(UsageError, match=r"own query\.sql") as raised:
        execute(database, find_query(str(path)))
    assert "\n" not in str(raised.value)


def test_a_header_without_sql(database: Database, tmp_path: Path) -> None:
    path = own(tmp_path, '/*\ntitle = "nothing"\n*/\n')
    with pytest.raises(UsageError, match="no SQL"):
        execute(database, find_query(str(path)))


@pytest.mark.slow
def test_a_header_that_forgets_a_relation(database: Database, tmp_path: Path) -> None:
    path = own(tmp_path, '/*\ntitle = "a"\nneeds = ["kernel"]\n*/\nSELECT count(*) FROM iteration')
    assert execute(database, find_query(str(path))).frame.height == 1


def test_files_that_are_no_text_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "binary.sql"
    path.write_bytes(b"\xff\xfe\x00SELECT")
    for wrong in (path, tmp_path / "none.sql", tmp_path):
        with pytest.raises(UsageError):
            read_query(wrong)


# the Python interface


@pytest.mark.slow
def test_traces_answer_as_the_command_line_does(database: Database, sample: list[str]) -> None:
    traces = Traces(database, sample)
    assert traces.query("fp32_util", by="layer").height > traces.query("fp32_util").height
    assert traces.run("kernel_summary").frame.height == traces.query("kernel_summary").height
    assert traces.sql("SELECT count(*) FROM trace").rows() == [(2,)]
    with traces.connect("op_scope") as connection:
        assert isinstance(connection, duckdb.DuckDBPyConnection)
        assert connection.execute("SELECT count(*) > 0 FROM op_scope").fetchall() == [(True,)]


@pytest.mark.slow
def test_opening_by_name_by_file_and_wrongly(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))
    assert len(open_traces(db=database.path).trace_ids) == 3
    assert len(open_traces("little.sqlite", db=database.path).trace_ids) == 1
    copied = shutil.copy(database.path.parent / "little.sqlite", tmp_path / "copied.sqlite")
    assert open_traces(copied).query("kernel_summary").height == 1
    assert len(open_traces(SAMPLE).trace_ids) == 2
    for wrong in (["nothing"], [str(copied), "nothing"]):
        with pytest.raises(TbdTraceError) as raised:
            open_traces(*wrong, db=database.path)
        assert "nothing" in str(raised.value)
