"""Derived relations are computed once and kept: the same answers, sooner, and never stale."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from tbd_trace import resources
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import (
    Catalogue,
    Query,
    RelationCache,
    catalogue,
    connect,
    execute,
    execute_batches,
    prepare,
)
from tbd_trace.query import relation_cache as cache_module
from tbd_trace.query.catalogue import derive_relations, required_relations
from tbd_trace.runtime.settings_env import MEMORY_LIMIT
from tbd_trace.store import Database


@pytest.fixture(autouse=True)
def keep_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_SHORTEST_SECONDS", 0.0)


@pytest.fixture
def database(sample_database: Database, tmp_path: Path) -> Database:
    """Return a copy of the sample's database of which nothing was asked."""
    made = Database(tmp_path / "x.duckdb")
    shutil.copytree(sample_database.traces_directory, made.traces_directory)
    shutil.copy(sample_database.path, made.path)
    return made


def kept_files(database: Database) -> list[Path]:
    return sorted(database.derived_directory.glob("*.parquet"))


@pytest.mark.slow
def test_queries_answer_the_same_from_what_was_kept(database: Database) -> None:
    queries = [Catalogue().get(name) for name in ("fp32_util", "layer_time", "idle_causes")]
    first = {query.name: execute(database, query).frame for query in queries}
    assert kept_files(database)
    for query in queries:
        assert execute(database, query).frame.equals(first[query.name]), query.name


@pytest.mark.parametrize("worth_limiting", [0, 10**9])
def test_what_an_answer_needs_is_kept_while_its_last_part_is_written(
    database: Database, monkeypatch: pytest.MonkeyPatch, worth_limiting: int
) -> None:
    monkeypatch.setattr("tbd_trace.query.pages.LARGE_ROWS", worth_limiting)
    query = Catalogue().get("nvtx_summary")
    batches = execute_batches(database, query)
    frames = [next(batches).rows]
    assert [file.name.partition("-")[0] for file in kept_files(database)] in (
        [],
        ["annotation_host_time"],
    )
    frames += [batch.rows for batch in batches]
    assert [file.name.partition("-")[0] for file in kept_files(database)] == [
        "annotation_host_time"
    ]
    assert pl.concat(frames).equals(execute(database, query).frame)


@pytest.mark.slow
@pytest.mark.parametrize("shortest", [0.0, 1e9])
def test_the_first_answer_about_a_trace_is_kept_where_it_took_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shortest: float
) -> None:
    monkeypatch.setattr(cache_module, "_SHORTEST_AT_FIRST", shortest)
    database = Database(tmp_path / "x.duckdb")
    database.ingest([resources.data() / "samples" / "synthetic_cnn" / "timeline.sqlite"])
    query = Catalogue().get("nvtx_summary")
    first = execute(database, query).frame
    assert len(kept_files(database)) == (1 if shortest == 0 else 0)
    assert execute(database, query).frame.equals(first)
    assert len(kept_files(database)) == 1
    assert execute(database, query).frame.equals(first)


@pytest.mark.slow
def test_who_wants_no_more_rows_gets_no_more_and_the_next_question_is_answered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tbd_trace.query.pages.LARGE_ROWS", 0)
    monkeypatch.setattr("tbd_trace.query.pages.PAGE_ROWS", 3)
    query = Catalogue().get("nvtx_projection")
    batches = execute_batches(database, query)
    first = next(batches).rows
    batches.close()
    assert first.height == 3
    assert execute(database, query).frame.head(3).equals(first)


@pytest.mark.slow
def test_every_relation_is_the_same_from_its_file(
    database: Database, computed: dict[str, tuple[Any, ...]]
) -> None:
    with connect(database) as connection:
        prepare(connection, computed, RelationCache(database, database.trace_ids()))
    assert len(kept_files(database)) == len(computed)
    with connect(database) as connection:
        prepare(connection, computed, RelationCache(database, database.trace_ids()))
        for name, expected in computed.items():
            assert rows_of(connection, name) == expected, name


@pytest.fixture(scope="module")
def computed(sample_database: Database) -> dict[str, tuple[Any, ...]]:
    """Return columns, types and rows of the derived relations, computed without their files."""
    names = [relation.name for relation in derive_relations() if not relation.view]
    with connect(sample_database, few_rows=500_000) as connection:
        prepare(connection, names)
        return {name: rows_of(connection, name) for name in names}


def rows_of(connection: duckdb.DuckDBPyConnection, name: str) -> tuple[Any, ...]:
    relation = connection.sql(f"FROM {name} ORDER BY ALL")
    return relation.columns, relation.types, relation.fetchall()


@pytest.mark.slow
def test_what_was_kept_is_read_and_its_basis_is_not_computed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Catalogue().get("layer_time")
    expected = execute(database, query).frame
    made: list[str] = []

    def spy(self: RelationCache, connection: object, relation: Query) -> None:
        made.append(relation.name)

    monkeypatch.setattr(RelationCache, "compute", spy)
    assert execute(database, query).frame.equals(expected)
    assert made == []


@pytest.mark.slow
@pytest.mark.parametrize("is_slow", [False, True])
def test_where_only_all_relations_together_took_long_those_that_were_asked_for_are_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    monkeypatch.setattr(cache_module, "is_slow", lambda _started: False)
    monkeypatch.setattr("tbd_trace.query.connection.is_slow", lambda _started, at_first: is_slow)
    query = Catalogue().get("layer_time")
    asked = {relation.name for relation in derive_relations()}.intersection(query.relations)
    expected = execute(database, query).frame
    kept = {path.name.rpartition("-")[0] for path in kept_files(database)}
    assert kept == (asked if is_slow else set())
    if is_slow:
        monkeypatch.setattr(RelationCache, "compute", None)  # nothing is computed again
        assert execute(database, query).frame.equals(expected)


@pytest.mark.slow
def test_a_large_table_gives_way_to_its_file(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = []
    for smallest in (cache_module._SMALL_BYTES, 0):
        monkeypatch.setattr(cache_module, "_SMALL_BYTES", smallest)
        shutil.rmtree(database.derived_directory, ignore_errors=True)
        with connect(database) as connection:
            prepare(connection, ["op_scope"], RelationCache(database, database.trace_ids()))
            rows = connection.sql("FROM op_scope ORDER BY ALL").fetchall()
            left = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        tables.append((rows, len(left)))
    (in_memory, several), (from_file, none) = tables
    assert in_memory == from_file
    assert in_memory
    assert several > none == 1  # `trace`, which nothing derives


@pytest.mark.slow
def test_a_file_that_goes_at_once_leaves_the_table(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_SMALL_BYTES", 0)
    monkeypatch.setattr(RelationCache, "load", lambda *_of: False)
    query = Catalogue().get("layer_time")
    assert not execute(database, query).frame.is_empty()


@pytest.mark.slow
def test_a_parameter_makes_another_file(database: Database) -> None:
    query = Catalogue().get("iteration_timing")
    execute(database, query)
    before = kept_files(database)
    found = execute(database, query, parameters={"iteration_pattern": "^no such range$"})
    assert max(found.frame["confidence"]) < 1  # ranges that repeat, whatever they are called
    assert len(kept_files(database)) > len(before)
    assert set(execute(database, query).frame["confidence"]) == {1}


@pytest.mark.slow
def test_another_trace_is_never_answered_from_the_first(database: Database) -> None:
    timeline, metrics = (
        [row["trace_id"] for row in database.traces().to_dicts() if row["kind"] == kind]
        for kind in ("timeline", "metrics")
    )
    counts = []
    for trace_ids in (timeline, metrics, timeline, metrics):
        with connect(database, trace_ids) as connection:
            prepare(connection, ["gpu_op"], RelationCache(database, trace_ids))
            counts.append(connection.execute("SELECT count(*) FROM gpu_op").fetchall())
    assert counts[:2] == counts[2:]
    assert counts[0] != counts[1]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"PAR1 and no more"])
def test_a_damaged_file_is_computed_again(database: Database, damage: bytes) -> None:
    query = Catalogue().get("layer_time")
    expected = execute(database, query).frame
    for file in kept_files(database):
        file.write_bytes(damage)
    assert execute(database, query).frame.equals(expected)
    with duckdb.connect() as connection:
        for file in kept_files(database):
            connection.execute(f"SELECT count(*) FROM '{file}'")


@pytest.mark.slow
def test_what_was_not_used_for_longest_makes_room(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Catalogue().get("iteration_timing")
    execute(database, query)
    old = kept_files(database)
    for file in old:
        os.utime(file, (0, 0))
    monkeypatch.setattr(cache_module, "_MOST_BYTES", 1)
    execute(database, query, parameters={"iteration_pattern": "^no such range$"})
    assert kept_files(database)  # what this query used
    assert all(file.stat().st_atime > 0 for file in kept_files(database))


@pytest.mark.slow
def test_removing_a_trace_removes_what_was_derived(database: Database) -> None:
    execute(database, Catalogue().get("layer_time"))
    database.remove([database.trace_ids()[0]])
    assert kept_files(database) == []


@pytest.mark.slow
def test_a_database_that_may_only_be_read_answers(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    assert not execute(database, Catalogue().get("layer_time")).frame.is_empty()
    assert kept_files(database) == []


# large traces


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all traces for large ones."""
    monkeypatch.setattr(cache_module, "_LARGE", 0)


@pytest.fixture
def sliced(large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any trace be large, and its tables come in slices of five rows."""
    monkeypatch.setattr("tbd_trace.query.relation_slices._SLICE_ROWS", 5)


@pytest.mark.slow
@pytest.mark.usefixtures("sliced")
def test_slices_are_all_rows_once(database: Database) -> None:
    with connect(database) as connection:
        kept = RelationCache(database, database.trace_ids())
        expected = connection.sql("FROM annotation ORDER BY ALL").fetchall()
        text = "SELECT *, (SELECT count(*) FROM annotation) AS rows FROM annotation"
        kept.compute(connection, made_relation(text))
        found = connection.sql("FROM made ORDER BY ALL").fetchall()
        assert [row[:-1] for row in found] == expected
        assert {row[-1] for row in found} <= {4, 5}
        assert connection.sql("FROM annotation ORDER BY ALL").fetchall() == expected


@pytest.mark.usefixtures("sliced")
def test_a_slice_that_fails_leaves_the_table_whole(database: Database) -> None:
    with connect(database) as connection:
        kept = RelationCache(database, database.trace_ids())
        expected = connection.sql("FROM annotation ORDER BY ALL").fetchall()
        with pytest.raises(duckdb.Error):
            kept.compute(connection, made_relation("SELECT error(text) FROM annotation"))
        assert connection.sql("FROM annotation ORDER BY ALL").fetchall() == expected


@pytest.mark.usefixtures("sliced")
def test_no_rows_are_one_slice(database: Database) -> None:
    with connect(database) as connection:
        connection.execute(
            "CREATE OR REPLACE TEMP VIEW annotation AS SELECT NULL::BIGINT AS annotation_id LIMIT 0"
        )
        kept = RelationCache(database, database.trace_ids())
        kept.compute(connection, made_relation("SELECT count(*) AS rows FROM annotation"))
        assert connection.sql("FROM made").fetchall() == [(0,)]


def made_relation(sql: str) -> Query:
    return Query("made", Path("made.sql"), sql, "made", slices="annotation")


def test_slices_are_of_canonical_tables_with_ids() -> None:
    named = [relation for relation in derive_relations() if relation.slices]
    assert named
    for relation in named:
        columns = [column.name for column in canonical_tables()[relation.slices].columns]
        assert f"{relation.slices}_id" in columns
        assert relation.slices in relation.relations


def memory_limit(connection: duckdb.DuckDBPyConnection) -> str:
    """Return how much memory DuckDB may use."""
    return str(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])


@pytest.mark.slow
def test_relations_of_large_traces_are_computed_into_their_files(
    database: Database, computed: dict[str, tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("_LARGE", "_SMALL_BYTES"):
        monkeypatch.setattr(cache_module, bound, 0)
    monkeypatch.setattr("tbd_trace.query.relation_slices._SLICE_ROWS", 40)  # of 288 ranges and more
    with connect(database) as connection:
        before = memory_limit(connection)
        prepare(connection, computed, RelationCache(database, database.trace_ids()))
        left = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        assert left == [("trace",)]
        assert memory_limit(connection) == before
        for name, expected in computed.items():
            assert rows_of(connection, name) == expected, name
    assert len(kept_files(database)) == len(computed)
    assert not list(database.derived_directory.glob(".*"))


@pytest.mark.slow
def test_memory_is_bounded_while_a_relation_is_computed(
    large: None, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    write = RelationCache._write

    def spy(
        self: RelationCache, connection: duckdb.DuckDBPyConnection, relation: Query, rows: str
    ) -> int | None:
        seen.append(memory_limit(connection))
        return write(self, connection, relation, rows)

    monkeypatch.setattr(RelationCache, "_write", spy)
    monkeypatch.setattr(cache_module, "_STREAM_MEMORY", 512 * 2**20)
    with connect(database) as connection:
        prepare(connection, ["gpu_op"], RelationCache(database, database.trace_ids()))
    monkeypatch.setenv(MEMORY_LIMIT, "1GiB")  # what the user says counts
    with connect(database) as connection:
        prepare(connection, ["launch"], RelationCache(database, database.trace_ids()))
        assert memory_limit(connection) == "1.0 GiB"
    assert seen == ["512.0 MiB", "1.0 GiB"]


@pytest.mark.slow
def test_memory_grows_with_the_traces(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    create = RelationCache._create

    def spy(
        self: RelationCache,
        connection: duckdb.DuckDBPyConnection,
        relation: Query,
        for_answer: bool,
    ) -> None:
        seen.append(memory_limit(connection))
        create(self, connection, relation, for_answer)

    monkeypatch.setattr(RelationCache, "_create", spy)
    monkeypatch.setattr(cache_module, "_LEAST_MEMORY", 64 * 2**20)
    for name, per_row in (("gpu_op", 0), ("launch", 2**20)):
        monkeypatch.setattr(cache_module, "_MEMORY_PER_ROW", per_row)
        with connect(database) as connection:
            kept = RelationCache(database, database.trace_ids())
            before = memory_limit(connection)
            prepare(connection, [name], kept, transient=True)
            assert memory_limit(connection) == before
            kept.keep_rest(connection)
            rows = kept.rows(connection)
    assert 64 < rows < 1024
    assert seen == ["64.0 MiB", f"{rows}.0 MiB"]


@pytest.mark.slow
@pytest.mark.parametrize("is_large", [False, True])
def test_where_the_bounded_memory_is_not_enough_more_is_used(
    database: Database, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    expected = execute(database, Catalogue().get("layer_time")).frame
    shutil.rmtree(database.derived_directory)
    if is_large:
        monkeypatch.setattr(cache_module, "_LARGE", 0)
    monkeypatch.setattr(cache_module, "_STREAM_MEMORY", 1024)
    monkeypatch.setattr(cache_module, "_LEAST_MEMORY", 1024)
    monkeypatch.setattr(cache_module, "_MEMORY_PER_ROW", 0)
    assert execute(database, Catalogue().get("layer_time")).frame.equals(expected)


@pytest.mark.slow
def test_what_only_others_build_on_leaves_memory(database: Database) -> None:
    def tables(*, transient: bool) -> set[str]:
        with connect(database) as connection:
            prepare(connection, ["iteration"], None, transient=transient)
            found = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            return {name for (name,) in found}

    assert tables(transient=True) == {"trace", "iteration"}
    assert tables(transient=False) >= {"trace", "iteration", "_iteration_mark", "gpu_op"}


@pytest.mark.slow
def test_a_large_trace_in_a_database_that_may_only_be_read(
    large: None, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_a_database_that_may_only_be_read_answers(database, monkeypatch)


# what a file depends on


def file_names(database: Database) -> dict[str, str]:
    """Return the name of the file of each derived relation, as its SQL and data are now."""
    catalogue.derived_relation.cache_clear()
    catalogue.derive_relations.cache_clear()
    catalogue.parameters_behind.cache_clear()
    cache_module._fingerprint.cache_clear()
    kept = RelationCache(database, database.trace_ids())
    with connect(database) as connection:
        return {each.name: kept._path(connection, each).name for each in derive_relations()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "changes"),
    [
        (("queries/derive/counters/kernel_class.sql", "SELECT", "SELECT "), "kernel_class"),
        (("data/gpu_products.csv", "recalled", "known"), "device_peak"),
        (("queries/derive/attribution/gpu_op.sql", 'title    = "', 'title    = "Our '), None),
        (("queries/metrics/layers/layer_time.sql", "SELECT", "SELECT "), None),
    ],
)
def test_an_edit_drops_what_builds_on_it_and_nothing_else(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    edit: tuple[str, str, str],
    changes: str | None,
) -> None:
    file, old, new = edit
    copies = {name: tmp_path / name for name in ("queries", "data")}
    for name, source in (("queries", resources.queries()), ("data", resources.data())):
        shutil.copytree(source, copies[name], ignore=shutil.ignore_patterns("samples"))
        monkeypatch.setattr(resources, name, lambda name=name: copies[name])
    before = file_names(database)
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new), encoding="utf-8")
    after = file_names(database)
    dependants = {
        name for name in before if changes in {each.name for each in required_relations([name])}
    }
    assert {name for name in before if before[name] != after[name]} == dependants
    assert bool(dependants) == (changes is not None)
    monkeypatch.undo()
    file_names(database)  # leaves what others read
