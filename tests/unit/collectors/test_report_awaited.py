"""The watcher of a command whose memory is recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.report_awaited import memory_awaited

COMMAND = Command(("python", "x.py"), "cpu")
MEMORY = Profiling(memory=True)


def test_a_report_ends_the_program(tmp_path: Path) -> None:
    watcher = memory_awaited(COMMAND, MEMORY, tmp_path)
    assert watcher is not None
    assert not watcher.is_enough()
    assert watcher.description() == ""
    report = {"optimizer": "AdamW", "model": "Net"}
    (tmp_path / "memory.json").write_text(json.dumps(report), encoding="utf-8")
    assert watcher.is_enough()
    assert watcher.description() == "iterations are steps of AdamW, layers those of Net"


def test_other_runs_go_to_their_end(tmp_path: Path) -> None:
    assert memory_awaited(Workload("resnet50"), MEMORY, tmp_path) is None
    assert memory_awaited(COMMAND, Profiling(), tmp_path) is None
    assert memory_awaited(replace(COMMAND, auto=False), MEMORY, tmp_path) is None
