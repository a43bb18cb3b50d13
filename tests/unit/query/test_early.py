"""What ``tbd-trace ingest`` computes for large traces, so that questions only read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.memory_snapshot import write_snapshot
from typer.testing import CliRunner

from tbd_trace.cli.main import app
from tbd_trace.query import Catalogue, early, execute, relation_cache
from tbd_trace.store import Database


def ingested(folder: Path, events: int) -> tuple[Database, int]:
    truth = write_snapshot(folder / "made.pickle", events)
    database = folder / "db.duckdb"
    result = CliRunner().invoke(app, ["ingest", str(folder / "made.pickle"), "--db", str(database)])
    assert result.exit_code == 0, result.output
    return Database(database), truth.peak_bytes


def computed(database: Database) -> set[str]:
    files = database.derived_directory.glob("*.parquet")
    return {file.stem.rpartition("-")[0] for file in files}


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "_LARGE", 1000)
    monkeypatch.setattr(relation_cache, "_SHORTEST_SECONDS", 0)


@pytest.mark.slow
@pytest.mark.parametrize(("events", "is_large"), [(900, False), (5_000, True)])
def test_relations_about_memory_are_computed_for_large_snapshots(
    tmp_path: Path, events: int, is_large: bool
) -> None:
    database, peak_bytes = ingested(tmp_path, events)
    assert ({"allocation", "memory_running"} <= computed(database)) is is_large
    before = database.derived_directory.glob("allocation-*")
    times = {file: file.stat().st_ctime_ns for file in before}
    frame = execute(database, Catalogue().get("memory_at_peak")).frame
    assert frame["requested_bytes"].sum() <= peak_bytes
    # The question read the relation instead of computing it.
    after = database.derived_directory.glob("allocation-*")
    assert not is_large or [file.name for file in after] == [file.name for file in times]


def test_without_space_for_them_the_trace_is_ingested(tmp_path: Path) -> None:
    (tmp_path / "db.duckdb.traces").mkdir()
    (tmp_path / "db.duckdb.traces" / "derived").write_text("a file in place of the directory")
    database, peak_bytes = ingested(tmp_path, 5_000)
    frame = execute(database, Catalogue().get("memory_peak")).frame
    assert frame["peak_requested_bytes"].to_list() == [peak_bytes]
