"""The command line of ``try``: ``--list``, and errors in the arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tbd_models.trial.changes import CHANGES
from tbd_trace.cli.main import app
from tbd_trace.cli.try_change import _name


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, ["try", *words])


def test_changes_are_listed() -> None:
    lines = invoke("--list").stdout.splitlines()
    assert [line.split()[0].partition("=")[0] for line in lines] == list(CHANGES)
    assert lines[0].split(maxsplit=1) == ["workers=4", "worker processes load batches"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "name the training command"),
        (
            ("--change", "fast", "--", "python", "x.py"),
            "--change fast: unknown; use one of workers",
        ),
        (("--change", "tf32", "--", "python", "x.py"), "--change tf32: needs a GPU"),
        (("--all", "--change", "amp", "--", "x"), "--all tries all changes; leave out --change"),
        (("-o", ".", "--", "python", "x.py"), "exists; choose another -o, or remove it"),
    ],
)
def test_wrong_requests_run_nothing(
    words: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("--device", "cpu", *words)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert not any(tmp_path.iterdir())


def test_a_command_that_cannot_run_leaves_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("--device", "cpu", "-o", "c", "--", "no-such-program")
    assert done.exit_code != 0
    assert "no-such-program" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "sub/train.py", "--data", "x.py"], "train"),
        (["python", "-m", "package.train"], "package.train"),
        (["./run"], "run"),
    ],
)
def test_captures_are_named_by_the_script(command: list[str], name: str) -> None:
    assert _name(command) == name
