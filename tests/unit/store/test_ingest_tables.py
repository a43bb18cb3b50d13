"""Tables of an ingest answer questions while others are still being written."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest

from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.store.ingest_tables import IngestTables
from tbd_trace.store.tables import whole_file, write_table

QUESTION = "SELECT count(*), max(kernel_id) FROM kernel"


def write(staging: Path, table: str, select: str | None) -> None:
    with duckdb.connect() as connection:
        file = whole_file(staging, table)
        write_table(connection, select, canonical_tables()[table], trace_id="t", file=file)


def test_a_question_that_was_begun(tmp_path: Path) -> None:
    write(tmp_path, "kernel", "SELECT 7 * i AS kernel_id, 'k' AS name FROM range(5) AS r(i)")
    whole_file(tmp_path, "memcpy").write_bytes(b"half")  # it is being written
    with duckdb.connect() as own, IngestTables(tmp_path, own) as written:
        written.begin(QUESTION, ["kernel"])
        assert written.ask(QUESTION) == [(5, 28)]


def test_a_question_about_all_tables(tmp_path: Path) -> None:
    for table in canonical_tables().keys() - {"trace"}:
        write(tmp_path, table, None)
    with duckdb.connect() as own, IngestTables(tmp_path, own) as written:
        assert written.ask(QUESTION) == [(0, None)]
        assert written.ask("SELECT count(*) FROM api_call, annotation") == [(0,)]


@pytest.mark.slow
def test_a_question_that_was_not_begun_opens_no_other_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tbd_trace.store.ingest_tables.scratch_connection", None)
    for table in canonical_tables().keys() - {"trace"}:
        write(tmp_path, table, None)
    with duckdb.connect() as own:
        own.execute("CREATE TEMP VIEW kernel AS SELECT 1 AS kernel_id")
        with IngestTables(tmp_path, own) as written:
            assert written.ask(QUESTION) == [(0, None)]
        assert own.execute(QUESTION).fetchall() == [(1, 1)]  # its own views are as before


def test_a_damaged_table_is_an_error_of_who_asks(tmp_path: Path) -> None:
    whole_file(tmp_path, "kernel").write_bytes(b"PAR1 damaged PAR1")
    with duckdb.connect() as own, IngestTables(tmp_path, own) as written:
        written.begin(QUESTION, ["kernel"])
        with pytest.raises(duckdb.Error):
            written.ask(QUESTION)


def test_nothing_goes_on_in_the_end(tmp_path: Path) -> None:
    write(tmp_path, "kernel", None)
    before = threading.active_count()
    with duckdb.connect() as own, IngestTables(tmp_path, own) as written:
        written.begin(QUESTION, ["kernel"])
    assert threading.active_count() == before
