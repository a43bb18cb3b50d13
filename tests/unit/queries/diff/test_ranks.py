"""diff: communication, stragglers and bandwidth of two jobs, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from made_job import ELEMENTS, write_job
from made_kineto import document, kernel, launch, write
from made_nccl_tests import LOG
from one_comparison import compare_once
from tbd_trace.cli.main import app

MS = 1_000_000
BYTES = 4 * ELEMENTS


def ingested(folder: Path, **jobs: Path) -> str:
    database = str(folder / "made.duckdb")
    for name, path in jobs.items():
        result = CliRunner().invoke(app, ["ingest", "--job", name, str(path), "--db", database])
        assert result.exit_code == 0, result.output
    return database


def compared(database: str, *arguments: str) -> Any:
    result = CliRunner().invoke(app, ["diff", *arguments, "--db", database])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """In A rank 1 is late by 40 ms, and data move for 60 ms; in B nobody, and 80 ms."""
    folder = tmp_path_factory.mktemp("jobs")
    a = write_job(folder / "a", 2, late=1)
    b = write_job(folder / "b", 3, late=2, delay=20_000, took=80_000)
    return ingested(folder, before=a, after=b)


@pytest.mark.slow
def test_communication_and_waits_of_each_rank(jobs: str) -> None:
    answer = json.loads(compared(jobs, "before", "after", "--format", "json").stdout)
    found = {
        (row["measure"], row["rank"]): (row["a_ns"], row["b_ns"], row["change_ns"])
        for row in answer["ranks"]
    }
    assert found == {
        ("communication", 0): (100 * MS, 100 * MS, 0),
        ("communication", 1): (60 * MS, 100 * MS, 40 * MS),
        ("communication", 2): (None, 80 * MS, None),
        ("wait for later ranks", 0): (40 * MS, 20 * MS, -20 * MS),
        ("wait for later ranks", 1): (0, 20 * MS, 20 * MS),
        ("wait for later ranks", 2): (None, 0, None),
        ("wait caused", 0): (0, 0, 0),
        ("wait caused", 1): (40 * MS, 0, -40 * MS),
        ("wait caused", 2): (None, 40 * MS, None),
    }
    shares = {row["rank"]: (row["a_last_pct"], row["b_last_pct"]) for row in answer["ranks"][-3:]}
    assert shares == {0: (0, 0), 1: (100, 0), 2: (None, 100)}
    assert {row["per_a"] for row in answer["ranks"]} == {"iteration", None}
    sentence = answer["verdict"]["sentence"]
    assert "Communication takes 100 ms per iteration in B and 80 ms in A, mean of 2 ranks." in (
        sentence
    )
    assert sentence.endswith(
        "In B rank 2 is last in 100 % of collectives; in A rank 1 is last in 100 % of collectives."
    )


@pytest.mark.slow
def test_waits_of_runs_without_iterations_are_those_of_the_trace(tmp_path: Path) -> None:
    runs = {}
    for name in ("a", "b"):
        folder = write_job(tmp_path / name, 2, late=1)
        for file in folder.iterdir():
            file.write_text(file.read_text().replace("ProfilerStep#", "part"))
        runs[name] = folder
    answer = json.loads(compared(ingested(tmp_path, **runs), "a", "b", "--format", "json").stdout)
    found = {(row["measure"], row["rank"]): (row["a_ns"], row["b_ns"]) for row in answer["ranks"]}
    assert found["wait for later ranks", 0] == (4 * 40 * MS, 4 * 40 * MS)
    assert found["wait caused", 1] == (4 * 40 * MS, 4 * 40 * MS)


@pytest.mark.slow
def test_collectives_of_equal_kind_and_size(tmp_path: Path) -> None:
    a = write_job(tmp_path / "a", 2, late=1)
    b = write_job(tmp_path / "b", 2, late=1, took=75_000, iterations=6)
    answer = compared(ingested(tmp_path, a=a, b=b), "a", "b", "--format", "json")
    [row] = json.loads(answer.stdout)["collectives"]
    assert row == {
        "kind": "all_reduce", "bytes": BYTES, "group_size": 2, "basis": "transfer",
        "a_collectives": 4, "b_collectives": 6, "a_median_ns": 60 * MS, "b_median_ns": 75 * MS,
        "change_pct": 25.0, "a_busbw_bytes_per_s": pytest.approx(BYTES / 0.060),
        "b_busbw_bytes_per_s": pytest.approx(BYTES / 0.075),
    }  # fmt: skip


@pytest.mark.slow
def test_every_form_has_the_parts(
    jobs: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_once(monkeypatch)
    text = compared(jobs, "before", "after").stdout
    assert "Communication of two runs" in text
    assert "Collectives of two runs" in text
    rows = compared(jobs, "before", "after", "--format", "csv").stdout.splitlines()
    assert len([line for line in rows if line.startswith("ranks,")]) == 9
    assert len([line for line in rows if line.startswith("collectives,")]) == 2
    compared(jobs, "before", "after", "-o", "page.html")
    page = Path("page.html").read_text()
    assert "Communication by rank" in page
    assert "Bus bandwidth" in page


@pytest.mark.slow
def test_a_job_without_a_straggler(tmp_path: Path) -> None:
    a = write_job(tmp_path / "a", 2, late=1)
    b = write_job(tmp_path / "b", 2, late=1, delay=2000)  # 1 % of an iteration
    answer = compared(ingested(tmp_path, a=a, b=b), "a", "b", "--format", "json")
    assert json.loads(answer.stdout)["verdict"]["sentence"].endswith(
        "In B no rank is a straggler; in A rank 1 is last in 100 % of collectives."
    )


@pytest.mark.slow
def test_a_rank_alone_is_no_straggler(tmp_path: Path) -> None:
    a, b = write_job(tmp_path / "a", 2, late=1), write_job(tmp_path / "b", 1)
    database = ingested(tmp_path, a=a, b=b)
    for sides in (("a", "b"), ("b", "a")):
        answer = compared(database, *sides, "--format", "json")
        assert "last in" not in json.loads(answer.stdout)["verdict"]["sentence"]


@pytest.mark.slow
def test_runs_without_communication_have_no_such_parts(tmp_path: Path) -> None:
    for name, took in (("a", 5), ("b", 7)):
        events = [launch(1, 3), kernel(10, took, 3)]
        write(tmp_path / f"{name}.json", document(events))
    result = CliRunner().invoke(app, ["diff", *(str(tmp_path / f"{n}.json") for n in "ab")])
    assert result.exit_code == 0, result.output
    assert "Communication of two runs" not in result.stdout
    assert "Collectives of two runs" not in result.stdout


@pytest.mark.slow
def test_a_log_of_nccl_tests_in_a_job_is_no_difference(tmp_path: Path) -> None:
    a = write_job(tmp_path / "a", 2, late=1)
    b = write_job(tmp_path / "b", 2, late=1, delay=30_000)
    database = ingested(tmp_path, a=a, b=b)
    log = tmp_path / "link.log"
    log.write_text(LOG)
    ingested(tmp_path, b=log)
    answer = json.loads(compared(database, "a", "b", "--format", "json").stdout)
    assert [row["field"] for row in answer["comparability"] if row["differs"]] == []


@pytest.mark.slow
def test_a_job_selects_its_traces(jobs: str) -> None:
    for arguments, ranks in ((["before"], 2), (["after"], 3), (["before", "after"], 5), ([], 5)):
        command = ["query", "straggler", *arguments, "--db", jobs, "--format", "csv"]
        result = CliRunner().invoke(app, command)
        assert len(result.stdout.splitlines()) == 1 + ranks
    result = CliRunner().invoke(app, ["query", "straggler", "befor", "--db", jobs])
    assert result.exit_code == 2
    assert "did you mean before" in result.stderr
