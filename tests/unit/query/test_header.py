"""Headers of query files: each is compared with the SQL below it, as DuckDB describes it.

Each test reads one file. ``test_header_is_valid`` fails for a file with an invalid header, and the
other tests of that file skip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pytest

from fast import one_in
from made_trace import MadeDatabase
from query_files import (
    CHECKS,
    DERIVED,
    MEMORY_CHECKS,
    MEMORY_METRICS,
    METRIC_NAMES,
    METRICS,
    NOT_IN_SAMPLES,
    REPLAYED,
    TORCH_METRICS,
    each_file,
    valid_headers,
)
from tbd_trace import resources
from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue, Query, execute, prepare, script
from tbd_trace.query.catalogue import derive_relations, read_query, required_relations
from tbd_trace.query.columns import Columns
from tbd_trace.query.header import alternatives
from tbd_trace.query.statements import FIRST_ROW, LAST_ROW
from tbd_trace.store import Database

DERIVED_NAMES = [path.stem for path in DERIVED]
DATA = {path.stem for path in resources.data().glob("*.csv")}
RELATIONS = {*canonical_tables(), *DERIVED_NAMES, *DATA}
VARIABLE = re.compile(r"getvariable\('(\w+)'\)")
DEFAULT = re.compile(
    r"coalesce\(\s*getvariable\('(\w+)'\)(?:::\w+)?\s*,\s*(?:'|[\d.-]|true\b|false\b)"
)

each = each_file([*METRICS, *CHECKS, *DERIVED])
each_answer = each_file([*METRICS, *CHECKS])
each_metric = each_file(METRICS)


@pytest.fixture
def query(path: Path) -> Query:
    """Return the query of a file; the test skips if its header is not valid."""
    with valid_headers():
        return read_query(path)


@pytest.fixture(scope="module")
def empty() -> Iterator[duckdb.DuckDBPyConnection]:
    """Return a connection with all relations, without rows."""
    with MadeDatabase({}) as database:
        prepare(database.connection, DERIVED_NAMES)
        yield database.connection


def parameters(query: Query) -> dict[str, Any]:
    """Return the parameters of a query and of the relations it builds on."""
    found: dict[str, Any] = {}
    for source in [*required_relations(query.relations), query]:
        found |= source.params
    return found


def definition(empty: duckdb.DuckDBPyConnection, relation: str) -> str:
    """Return the statement that makes a relation without rows."""
    described = empty.execute(f"DESCRIBE {relation}").fetchall()
    columns = ", ".join(f'"{name}" {kind}' for name, kind, *_ in described)
    return f"CREATE TABLE {relation} ({columns})"


def load_macros(connection: duckdb.DuckDBPyConnection, query: Query) -> None:
    for name in query.macros:
        connection.execute(resources.sql_files("macros")[name].read_text(encoding="utf-8"))


def describes(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Return True if every relation that a statement reads exists."""
    try:
        connection.execute(f"DESCRIBE {sql}")
    except duckdb.CatalogException:
        return False
    return True


def test_there_are_queries() -> None:
    assert {"fp32_util", "kernel_summary", "dominant_layer"} <= set(METRIC_NAMES)
    assert {"gpu_op", "iteration", "annotation_tree"} <= set(DERIVED_NAMES)


def test_names_of_queries_tables_and_data_are_unique() -> None:
    names = [path.stem for path in (*METRICS, *CHECKS, *DERIVED)]
    names += [*canonical_tables(), *DATA]
    assert len(set(names)) == len(names)


@each
def test_header_is_valid(path: Path) -> None:
    assert read_query(path).path == path


@each
def test_header_describes_the_query(query: Query) -> None:
    assert query.text.startswith("/*\n")
    for text in (query.title, query.question, query.grain):
        assert text.strip() == text != ""
    assert query.question.endswith("?")
    assert query.title != query.name
    for column in query.columns.values():
        assert column.doc.strip() == column.doc != ""
    for param in query.params.values():
        assert param.doc.strip() == param.doc != ""
        assert param.choices is None or param.default in param.choices


@each
def test_needs_are_relations_and_cover_what_the_query_reads(
    empty: duckdb.DuckDBPyConnection, query: Query
) -> None:
    declared = query.relations
    listed = [*chain.from_iterable(map(alternatives, query.needs)), *query.optional]
    assert declared == [*listed, *filter(None, [query.leaves_out])]
    assert RELATIONS.issuperset(declared)
    with duckdb.connect() as connection:
        load_macros(connection, query)
        for name in declared:
            connection.execute(definition(empty, name))
        assert describes(connection, query.sql)
        for name in query.optional:  # what it does not read itself is clutter
            connection.execute(f"DROP TABLE {name}")
            assert not describes(connection, query.sql), name
            connection.execute(definition(empty, name))


@each
def test_columns_are_what_the_query_returns(empty: duckdb.DuckDBPyConnection, query: Query) -> None:
    load_macros(empty, query)
    described = empty.execute(f"DESCRIBE {query.sql}").fetchall()
    assert list(query.columns) == [row[0] for row in described]
    for name, kind, *_ in described:
        # HUGEINT and DECIMAL surprise whoever reads the frame; "NULL" is no type at all
        assert kind in {
            "VARCHAR", "BIGINT", "INTEGER", "UBIGINT", "DOUBLE", "BOOLEAN", "VARCHAR[]", "BIGINT[]",
        } or kind.startswith("STRUCT"), f"{name} is {kind}"  # fmt: skip


@each_answer
def test_answers_are_plain_values(empty: duckdb.DuckDBPyConnection, query: Query) -> None:
    load_macros(empty, query)
    kinds = {row[1] for row in empty.execute(f"DESCRIBE {query.sql}").fetchall()}
    assert not any(kind.startswith("STRUCT") for kind in kinds)


@each
def test_columns_that_are_passed_on_are_described_once(query: Query) -> None:
    """A column is described where it first appears; the queries above inherit the description."""
    if isinstance(query.columns, Columns):  # those of checks are all the same
        assert query.columns.repeated() == []


@each
def test_units_agree_with_names(query: Query) -> None:
    units = {"_ns": "ns", "_pct": "%", "_bytes": "byte", "_flops": "FLOP/s", "_hz": "Hz",
        "_bytes_per_s": "byte/s", "_flop": "FLOP"}  # fmt: skip
    for name, column in query.columns.items():
        for suffix, unit in units.items():
            if name.endswith(suffix):
                assert column.unit == unit, name


@each_answer
def test_answers_are_ordered(query: Query) -> None:
    """The last ORDER BY stands outside all brackets: it orders the answer."""
    plain = re.sub(r"--[^\n]*|'(?:[^']|'')*'", "", query.sql)
    depth, top = 0, ""
    for character in plain:
        depth += (character == "(") - (character == ")")
        top += character if depth == 0 else ""
    assert "ORDER BY" in top
    ordered = top[top.rindex("ORDER BY") :]
    assert re.search(r"\b(trace_id|name|position|job)\b", ordered)
    assert "LIMIT" not in ordered


@each
def test_variables_are_parameters_with_a_default(query: Query) -> None:
    """Defaults stand in headers only."""
    raw = query.text
    used = set(VARIABLE.findall(raw)) - {FIRST_ROW, LAST_ROW}
    assert used <= set(parameters(query))
    unread = {query.refuse.unless} if query.refuse else set()  # the program reads these
    unread |= {query.file.param} if query.file else set()
    assert set(query.params) - unread <= used
    assert [name for name in DEFAULT.findall(raw) if name in used] == []


@each_answer
def test_a_parameter_has_one_meaning(query: Query) -> None:
    """Variables are global, so a query and the relations below it cannot share a name."""
    found: dict[str, str] = {}
    for source in [*required_relations(query.relations), query]:
        for name, param in source.params.items():
            # utilization passes its `by` on to the metrics above it
            assert found.setdefault(name, source.name) == source.name, (name, param)


def test_derived_relations_come_after_what_they_build_on() -> None:
    seen: set[str] = set()
    for query in derive_relations():
        assert set(query.relations) & set(DERIVED_NAMES) <= seen
        seen.add(query.name)
    assert seen == set(DERIVED_NAMES)


@each_metric
def test_plots_draw_columns_of_the_answer(query: Query) -> None:
    plot = query.plot
    while plot is not None:
        assert plot.columns <= set(query.columns)
        plot = plot.otherwise


@each_metric
def test_refusals_are_stated_in_a_column_of_sentences(
    empty: duckdb.DuckDBPyConnection, query: Query
) -> None:
    if query.refuse is not None:
        kinds = {row[0]: row[1] for row in empty.execute(f"DESCRIBE {query.sql}").fetchall()}
        assert kinds[query.refuse.column] == "VARCHAR[]"
        assert query.params[query.refuse.unless].default is False


# what headers share and how they are written


def written(folder: Path, name: str, header: str) -> Path:
    path = folder / f"{name}.sql"
    path.write_text(f'/*\ntitle = "Own"\n{header}\n*/\nSELECT 1 AS n', encoding="utf-8")
    return path


def test_prose_of_a_header_may_span_lines(tmp_path: Path) -> None:
    header = '''question = """How
    many?"""
[params.by]
doc = """one\ttwo
three"""
default = " a  b "
[columns.n]
doc = """first
    second"""'''
    query = read_query(written(tmp_path, "own", header))
    assert (query.question, query.params["by"].doc) == ("How many?", "one two three")
    assert query.columns["n"].doc == "first second"
    assert query.params["by"].default == " a  b "  # a value, not prose


def test_queries_can_share_columns_and_plots(tmp_path: Path) -> None:
    written(
        tmp_path, "one", '[columns.n]\ndoc = "number"\n[plot]\nkind = "line"\nx = "n"\ny = ["n"]'
    )
    query = read_query(written(tmp_path, "other", 'question = "Other?"\nlike = "one"'))
    assert query.columns["n"].doc == "number"
    assert query.plot is not None
    assert (query.question, query.path.name) == ("Other?", "other.sql")


@pytest.mark.parametrize("like", ["none", "own"])
def test_a_query_to_share_with_must_be_another_that_exists(tmp_path: Path, like: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be read|invalid header"):
        read_query(written(tmp_path, "own", f'like = "{like}"'))


# canonical tables


@pytest.mark.parametrize("name", canonical_tables())
def test_canonical_tables_are_what_duckdb_makes_of_them(name: str) -> None:
    table = canonical_tables()[name]
    with duckdb.connect() as connection:
        connection.execute(resources.sql_files("canonical")[name].read_text())
        made = connection.execute(f"DESCRIBE {name}").fetchall()
        empty_columns = connection.execute(f"DESCRIBE {table.empty_select}").fetchall()
    assert [(column.name, column.type) for column in table.columns] == [row[:2] for row in made]
    assert [row[:2] for row in empty_columns] == [row[:2] for row in made]
    assert table.doc.endswith(".")
    assert table.columns[0].name == "trace_id"
    assert all(column.doc for column in table.columns)


# the same rows in a plain DuckDB shell


def in_a_shell(path: Path, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return columns and rows of a script's last statement, run by DuckDB alone."""
    with duckdb.connect(str(path), read_only=True) as connection:
        *before, last = connection.extract_statements(text)
        for statement in before:
            connection.execute(statement)
        result = connection.execute(last)
        return [column[0] for column in result.description or []], result.fetchall()


# These read a relation that Python computes, such as the causes of a step or of idle time.
NO_SCRIPT = REPLAYED | {"gpu_idle_small_batch", "idle_causes"}
IN_SHELL = [path for path in (*METRICS, *CHECKS) if path.stem not in NOT_IN_SAMPLES | NO_SCRIPT]


@pytest.mark.slow
@each_file(one_in(25, IN_SHELL, then_one_in=16))
def test_the_script_gives_the_same_rows_in_a_shell(
    sample_database: Database, memory_sample: Database, torch_sample: Database, query: Query
) -> None:
    is_memory = query.name in MEMORY_METRICS | MEMORY_CHECKS
    database = memory_sample if is_memory else sample_database
    if query.name in TORCH_METRICS:
        database = torch_sample
    expected = execute(database, query)
    columns, rows = in_a_shell(database.path, script(query))
    assert columns == list(query.columns) == expected.frame.columns
    assert rows == expected.frame.rows()  # to the last digit


@each_file([path for path in (*METRICS, *CHECKS) if path.stem in NO_SCRIPT])
def test_a_query_of_a_relation_that_python_computes_is_no_script(query: Query) -> None:
    """Without the relation's rows a shell would give an empty answer."""
    [computed] = [one.name for one in required_relations(query.relations) if one.computed_by]
    with pytest.raises(UsageError) as error:
        script(query)
    assert str(error.value) == (
        f"{query.name}: reads {computed}, which tbd-trace computes in Python; write it to a file "
        f"with `tbd-trace export table {computed}`"
    )


@pytest.mark.slow
def test_parameters_are_set_in_the_script(sample_database: Database) -> None:
    query = Catalogue().get("fp32_util")
    chosen = {"by": "iteration", "window": "iterations"}
    expected = execute(sample_database, query, parameters=chosen)
    assert expected.frame.height > 1
    _, rows = in_a_shell(sample_database.path, script(query, chosen))
    assert rows == expected.frame.rows()  # to the last digit


@pytest.mark.slow
@pytest.mark.parametrize("sample", one_in(3, ["sample_database", "torch_sample", "memory_sample"]))
def test_derived_relations_in_a_shell(request: pytest.FixtureRequest, sample: str) -> None:
    """All of them run, and none has two equal rows."""
    database: Database = request.getfixturevalue(sample)
    derived = derive_relations()
    with duckdb.connect(str(database.path), read_only=True) as connection:
        for query in derived:
            connection.execute(f"CREATE TEMP TABLE {query.name} AS {query.sql}")
            described = connection.execute(f"DESCRIBE {query.name}").fetchall()
            assert [row[0] for row in described] == list(query.columns)
            twice = connection.execute(
                f"SELECT * FROM {query.name} GROUP BY ALL HAVING count(*) > 1"
            ).fetchall()
            assert twice == [], query.name
    for query in derived[-3:]:
        columns, _ = in_a_shell(database.path, script(query))
        assert columns == list(query.columns)
