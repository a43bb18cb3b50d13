"""The command line of ``hang``: the screen, JSON, the report, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from made_flight import Made, played, write_dumps
from tbd_trace.cli.main import app

GROUPS = {"0": [0, 1, 2]}
PROGRAM = [Made("0", 11), Made("0", 12, "barrier", ())] * 2
SCREEN = """\
job · 3 of 3 ranks with records

Who         rank 1 hangs the job
What        barrier number 4 of group 0 (default_pg)
Where       /home/user/train.py:12
Waiting     ranks 0 and 2
Since       2023-11-14 22:13:20 UTC
Evidence    rank 1 never called barrier number 4 of group 0 (default_pg), and
            waits in no other collective; the last call was all_reduce at
            /home/user/train.py:11
Do next     look at the code of rank 1 after the last collective; `py-spy dump
            --pid PID` shows the line
"""


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dumps of a job in which rank 1 stops before the last barrier."""
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))
    programs = {0: PROGRAM, 1: PROGRAM[:-1], 2: PROGRAM}
    return write_dumps(tmp_path / "job", played(programs, GROUPS), GROUPS)


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, ["hang", *map(str, words)])


def test_screen(dumps: Path) -> None:
    done = invoke(dumps)
    assert (done.exit_code, done.stdout) == (0, SCREEN)


def test_json(dumps: Path) -> None:
    answer = json.loads(invoke(dumps, "--format", "json").stdout)
    assert list(answer)[:5] == ["ranks", "collective", "line", "evidence", "waiting"]
    assert (answer["ranks"], answer["waiting"]) == ([1], [0, 2])


def test_job_without_hang(dumps: Path) -> None:
    folder = write_dumps(dumps.with_name("ok"), played(dict.fromkeys(range(3), PROGRAM), GROUPS),
                         GROUPS)  # fmt: skip
    done = invoke(folder)
    assert done.exit_code == 0
    assert "Who         no hang" in done.stdout
    assert json.loads(invoke(folder, "--format", "json").stdout)["ranks"] == []


@pytest.mark.slow
def test_report_has_a_row_per_rank_and_collective(dumps: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert invoke(dumps, "--report", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    for part in ("rank 1 never called barrier number 4", "rank_collectives", "collective_ranks"):
        assert part in text


def test_error_is_one_line(tmp_path: Path) -> None:
    done = invoke(tmp_path)
    assert done.exit_code == 3
    assert "no Flight Recorder dump; set TORCH_FR_BUFFER_SIZE=2000" in done.stderr
    assert "Traceback" not in done.stderr
