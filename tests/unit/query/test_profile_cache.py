"""A file seen for the first time is read no further than the question goes."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from pathlib import Path

import duckdb
import polars as pl
import pytest

from all_answers import answers
from corpus import ROOT, corpus_files
from fast import one_in
from tbd_trace.api import open_traces
from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import Catalogue, Result, canonical_relations, execute
from tbd_trace.query.profile_cache import cache_database
from tbd_trace.store import Database, content, identified_file

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
REAL = corpus_files("nsys/*.sqlite", "nvprof/*", "ncu/*")[::8]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def answer(path: Path, name: str) -> pl.DataFrame | str:
    query = Catalogue().get(name)
    opened = open_traces(path, question=query)
    try:
        return execute(opened.database, query, opened.trace_ids).frame
    except CannotAnswerError as error:
        return str(error)


def answers_of_all(path: Path, names: list[str]) -> dict[str, pl.DataFrame | str]:
    opened = open_traces(path)
    found = answers(opened.database, names, opened.trace_ids)
    return {name: one.frame if isinstance(one, Result) else str(one) for name, one in found.items()}


def same(one: pl.DataFrame | str, other: pl.DataFrame | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one.equals(other)


@pytest.fixture(scope="module")
def partial() -> list[str]:
    """Return the names of the metrics that read a file in part."""
    return [query.name for query in Catalogue().metrics() if query.partial]


def test_some_metrics_read_a_file_in_part(partial: list[str]) -> None:
    assert "kernel_summary" in partial


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    one_in(5, REAL.changed(lambda found: [SAMPLE, *found]), then_one_in=6),
    ids=lambda path: path.name[:60],
)
def test_a_file_read_in_part_gives_the_same_answers(path: Path, partial: list[str]) -> None:
    # In part first: once a file was read whole, that copy answers.
    in_part = {name: answer(path, name) for name in partial}
    whole = answers_of_all(path, partial)
    for name in partial:
        assert same(in_part[name], whole[name]), name


@pytest.mark.slow
def test_other_tables_are_not_read(cache: Path) -> None:
    query = Catalogue().get("kernel_summary")
    opened = open_traces(SAMPLE, question=query)
    assert opened.database.path.parent == cache
    assert not cache_database().exists()
    wanted = canonical_relations(query) | {"trace"}
    for directory in opened.database.traces_directory.iterdir():
        assert {file.stem for file in directory.glob("*.parquet")} == wanted
    assert opened.database.files("api_call", opened.trace_ids) == []
    # What the trace as a whole is, nobody has looked at.
    assert opened.database.traces()["end_ns"].null_count() == 2


@pytest.mark.slow
def test_only_the_columns_that_a_question_names_are_written() -> None:
    query = Catalogue().get("nvtx_summary")
    assert isinstance(query.partial, list)
    opened = open_traces(SAMPLE, question=query)
    for path in opened.database.files("annotation", opened.trace_ids):
        assert set(pl.read_parquet(path).columns) == {"trace_id", *query.partial}
    for lacking in query.partial:
        fewer = dataclasses.replace(query, partial=[c for c in query.partial if c != lacking])
        opened = open_traces(SAMPLE, question=fewer)
        with pytest.raises(duckdb.BinderException, match=f'"{lacking}"'):
            execute(opened.database, query, opened.trace_ids)


@pytest.mark.slow
def test_what_was_read_before_is_used() -> None:
    whole = open_traces(SAMPLE)
    again = open_traces(SAMPLE, question=Catalogue().get("kernel_summary"))
    assert (again.database.path, again.trace_ids) == (whole.database.path, whole.trace_ids)


@pytest.mark.slow
@pytest.mark.parametrize("question", ["kernel_summary", None])
def test_a_file_is_hashed_once(monkeypatch: pytest.MonkeyPatch, question: str | None) -> None:
    open_traces(SAMPLE / "timeline.sqlite")  # the cache holds another trace
    hashed = []

    def counted(path: Path) -> content.Content:
        hashed.append(path.name)
        return content.hash_file(path)

    monkeypatch.setattr(identified_file, "hash_file", counted)
    open_traces(SAMPLE, question=Catalogue().get(question) if question else None)
    assert sorted(hashed) == ["metrics.csv", "timeline.sqlite"]


@pytest.mark.slow
def test_large_files_are_distinguished_by_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "_WHOLE_BYTES", 1000)
    timeline = SAMPLE / "timeline.sqlite"
    changed = tmp_path / "changed.sqlite"
    shutil.copy(timeline, changed)
    connection = sqlite3.connect(changed)
    connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 1")
    connection.commit()
    connection.close()
    store = Database(tmp_path / "x.duckdb")
    reports = store.ingest([timeline, changed])
    assert reports[0].trace_id != reports[1].trace_id
    assert store.traces()["sha256"].to_list() == [None, None]
    again = tmp_path / "again.sqlite"
    shutil.copy(timeline, again)
    assert store.ingest([again])[0].status == "already there"
