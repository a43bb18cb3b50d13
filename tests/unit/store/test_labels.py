"""Names and labels of profiles, and directories of profiles."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result
from typer.testing import CliRunner

import tbd_trace
from all_answers import answers
from corpus import ROOT
from tbd_trace.cli.main import app
from tbd_trace.query import Result as QueryResult
from tbd_trace.store import Database
from tbd_trace.store.checksums import problems_of

CAPTURE = ROOT / "data" / "samples" / "synthetic_cnn"
TIMELINE = CAPTURE / "timeline.sqlite"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "profiles"
    made.mkdir()
    shutil.copy(TIMELINE, made / "one.sqlite")
    (made / "readme.txt").write_text("no profile")
    (made / "notes").mkdir()
    (made / "labels.csv").write_text("file,model,batch_size\none.sqlite,resnet50,64\n")
    return made


def ask_all(db: Path, *queries: str) -> list[pl.DataFrame]:
    found = answers(Database(db), queries)
    return [result.frame for result in found.values() if isinstance(result, QueryResult)]


@pytest.mark.slow
def test_a_directory_is_searched_and_its_labels_are_used(directory: Path, tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    done = run("ingest", directory, "--db", db)
    assert done.exit_code == 0, done.output
    assert "skipped other files: notes/, readme.txt" in done.stderr
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["one.sqlite"]
    before, compared, swept = ask_all(db, "throughput", "suite_compare", "batch_sweep")
    assert before.select("batch_size", "evidence").rows() == [(64, "label")]
    rate = before["iterations_per_s"][0]
    assert before["samples_per_s"][0] == pytest.approx(64 * rate)
    (found,) = compared.to_dicts()
    assert (found["model"], found["throughput"]) == ("resnet50", pytest.approx(64 * rate))
    assert found["throughput_run"] == "profiled; label: batch_size, model"
    assert swept["batch_size"].to_list() == [64]
    # Labels and name of a profile that is there can be changed; its id stays.
    again = run(
        *("ingest", directory / "one.sqlite", "--db", db, "--name", "my run"),
        *("--label", "batch_size=128", "--label", "precision=fp16"),
    )
    assert again.stdout.split()[0] == done.stdout.split()[0]
    assert "labelled" in again.stdout
    (again_compared,) = ask_all(db, "suite_compare")
    (found,) = again_compared.to_dicts()
    assert (found["model"], found["batch_size"], found["precision"]) == ("resnet50", 128, "fp16")
    assert found["throughput"] == pytest.approx(128 * rate)
    assert found["capture"] == "my run"
    database = Database(db)
    assert problems_of(database.traces_directory, database.trace_ids()) == []
    assert run("query", "throughput", "my run", "--db", db).exit_code == 0


@pytest.mark.slow
def test_a_copy_shows_the_name_that_was_typed(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a copy.sqlite"
    shutil.copy(directory / "one.sqlite", copy)
    for file in (directory / "one.sqlite", copy, directory / "one.sqlite"):
        opened = tbd_trace.open(file)
        assert opened.query("trace_info")["name"].to_list() == [file.name]
        assert opened.database.traces()["name"].to_list().count(file.name) == 1
    db = tmp_path / "t.duckdb"
    assert run("ingest", directory / "one.sqlite", "--db", db).exit_code == 0
    second = run("ingest", copy, "--db", db)
    assert "a copy.sqlite: the same profile as one.sqlite" in second.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--label", "batch_size"], "--label batch_size: expected NAME=VALUE"),
        (["--label", "batch_size=0"], "batch_size must be a whole number above 0"),
        (["--label", "colour=red"], "unknown label; the labels are activation_checkpointing"),
        (["--label", "activation_checkpointing=yes"], "must be true or false"),
        (["--name", " "], "--name: the name is empty"),
        (["--name", "x", "--job", "j"], "--name, --label and --labels are for profiles without"),
    ],
)
def test_invalid_labels_are_refused(
    options: list[str], said: str, directory: Path, tmp_path: Path
) -> None:
    done = run("ingest", directory, "--db", tmp_path / "t.duckdb", *options)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not list(tmp_path.glob("t.*"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,model\nx,y\n", "no column `file`"),
        ("file,batch_size\nx,many\n", "line 2: batch_size must be a whole number"),
        ("file,colour\nx,red\n", "line 2: unknown label"),
    ],
)
def test_invalid_files_of_labels_are_refused(
    text: str, said: str, directory: Path, tmp_path: Path
) -> None:
    labels = tmp_path / "mine.csv"
    labels.write_text(text)
    done = run("ingest", directory, "--db", tmp_path / "t.duckdb", "--labels", labels)
    assert done.exit_code != 0
    assert f"{labels}: {said}" in done.stderr


def test_a_name_is_for_one_profile(directory: Path, tmp_path: Path) -> None:
    done = run("ingest", directory, CAPTURE, "--db", tmp_path / "t.duckdb", "--name", "x")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--name: is for one profile, not for" in done.stderr


def test_a_directory_without_profiles_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("no profile")
    done = run("ingest", tmp_path, "--db", tmp_path / "t.duckdb")
    assert done.exit_code == 1
    assert "a directory without capture.json or profiles" in done.stderr
