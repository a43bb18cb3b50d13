"""What automatic marks report to collect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tbd_models.instrument.auto_report import change_report, report
from tbd_models.instrument.marks import REPORT_VARIABLE


def test_a_change_keeps_the_other_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv(REPORT_VARIABLE, str(tmp_path / "auto.json"))
    change_report(problem="first")
    report(boundary="steps")
    change_report(problem="second")
    found = json.loads((tmp_path / "auto.json").read_text())
    assert found == {"boundary": "steps", "problem": "second"}


def test_without_collect_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(REPORT_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    report(boundary="steps")
    change_report(problem="first")
    assert not list(tmp_path.iterdir())
