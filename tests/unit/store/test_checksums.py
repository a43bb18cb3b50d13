"""A bit that a disk changes is found before an answer depends on it."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import duckdb
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import tbd_trace
from corpus import ROOT
from fast import examples
from tbd_trace.cli.main import app
from tbd_trace.errors import StoreError
from tbd_trace.query import relation_cache
from tbd_trace.runtime.crc import is_sound
from tbd_trace.store import Database
from tbd_trace.store.checksums import problems_of
from tbd_trace.store.views import write_views

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn" / "timeline.sqlite"
QUESTIONS = ("kernel_summary", "step_breakdown", "layer_time")


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ingested")
    Database(folder / "x.duckdb").ingest([SAMPLE])
    return folder


@pytest.fixture
def database(ingested: Path, tmp_path: Path) -> Database:
    """Return a copy of the database, which a test may damage."""
    shutil.copytree(ingested, tmp_path, dirs_exist_ok=True)
    return Database(tmp_path / "x.duckdb")


def files(database: Database) -> list[Path]:
    return sorted(database.traces_directory.parent.rglob("*.parquet"))


def flip(file: Path, bit: int) -> None:
    """Change a bit and keep the time of the last change, as a disk does."""
    state = file.stat()
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.slow
def test_no_flipped_bit_changes_an_answer(database: Database) -> None:
    expected = {name: tbd_trace.open(db=database.path).query(name) for name in QUESTIONS}
    chance = random.Random(7)
    refused, flips = 0, examples(30)
    for number in range(flips):
        # Every third time a table that all questions read. How many of the other files are read
        # varies: on a slow machine more relations are cached.
        candidates = [f for f in files(database) if number % 3 or f.name == "kernel.parquet"]
        file = chance.choice(candidates)
        name = chance.choice(QUESTIONS)
        bit = chance.randrange(file.stat().st_size * 8)
        flip(file, bit)
        try:
            assert_frame_equal(tbd_trace.open(db=database.path).query(name), expected[name])
        except StoreError as error:
            assert f"damaged ({file.name} differs from its checksum)" in str(error)
            refused += 1
        if file.exists():
            flip(file, bit)
    assert refused >= len(range(0, flips, 3))


@pytest.mark.slow
def test_a_cached_relation_is_computed_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation_cache, "is_slow", lambda *_, **__: True)
    expected = tbd_trace.open(db=database.path).query("layer_time")
    cached = [f for f in files(database) if f.parent == database.derived_directory]
    assert len(cached) > 5
    for file in cached:
        flip(file, 8 * (file.stat().st_size // 2))
        assert not is_sound(file)
    assert_frame_equal(tbd_trace.open(db=database.path).query("layer_time"), expected)
    assert all(is_sound(file) for file in cached)


def test_a_missing_file_is_missed(database: Database) -> None:
    (file,) = (f for f in files(database) if f.name == "kernel.parquet")
    file.unlink()
    with pytest.raises(StoreError, match=r"damaged \(kernel.parquet is missing\); remove this"):
        tbd_trace.open(db=database.path).query("kernel_summary")


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", "[]", "{", '{"kernel.parquet": null}'])
def test_checksums_that_cannot_be_read(database: Database, content: str) -> None:
    (listed,) = database.traces_directory.rglob("checksums.json")
    listed.write_text(content)
    with pytest.raises(StoreError, match=r"damaged \(checksums.json cannot be read\)"):
        tbd_trace.open(db=database.path).query("kernel_summary")


@pytest.mark.slow
def test_traces_of_older_versions_have_none(database: Database) -> None:
    (listed,) = database.traces_directory.rglob("checksums.json")
    names = {f.name for f in files(database) if f.parent == listed.parent}
    assert json.loads(listed.read_text()).keys() == names
    listed.unlink()
    assert problems_of(database.traces_directory, database.trace_ids()) == []
    assert tbd_trace.open(db=database.path).query("kernel_summary").height


@pytest.mark.slow
def test_a_table_that_an_older_version_did_not_write_is_empty(database: Database) -> None:
    (listed,) = database.traces_directory.rglob("checksums.json")
    checksums = json.loads(listed.read_text())
    del checksums["event_wait.parquet"]
    listed.write_text(json.dumps(checksums))
    listed.with_name("event_wait.parquet").unlink()
    traces = tbd_trace.open(db=database.path)
    assert traces.sql("SELECT count(*) AS rows FROM event_wait")["rows"].to_list() == [0]
    assert traces.query("kernel_summary").height
    assert problems_of(database.traces_directory, database.trace_ids()) == []
    # Also for other programs, which read the views.
    database.path.unlink()
    write_views(database)
    with duckdb.connect(database.path, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM event_wait").fetchone() == (0,)


@pytest.mark.slow
def test_doctor_compares_every_file(database: Database) -> None:
    asked = ["doctor", "--db", str(database.path), "--format", "json"]
    sound = CliRunner().invoke(app, asked)
    assert sound.exit_code == 0
    for name in ("device.parquet", "kernel.parquet"):
        flip(next(f for f in files(database) if f.name == name), 1000)
    damaged = CliRunner().invoke(app, asked)
    assert damaged.exit_code == 1
    (row,) = (row for row in json.loads(damaged.stdout) if row["check"] == "database")
    assert row["status"] == "damaged"
    assert row["found"].endswith("device.parquet differs from its checksum and 1 more")
    assert row["advice"] == "remove this directory and ingest the profile again"
