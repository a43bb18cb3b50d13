"""A profiler registers itself in one place; the plan, the capture and the options follow."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from made_nsys import KERNEL, kernel, strings, write
from tbd_collectors import collect, plan, profilers
from tbd_collectors.collection_request import Command, Profiling
from tbd_collectors.profiler import TIMELINE, Counters, Profiler, Run, RunRequest, Timelines
from tbd_collectors.profilers import Entry, counting_profiler
from tbd_trace.cli.main import app
from tbd_trace.machine.inspection import Finding


def _plan(request: RunRequest) -> Run:
    argv = ["toy", *request.program(TIMELINE)]
    return Run(TIMELINE, "toy", [sys.executable, "-c", "print('ran')", *argv], request.directory)


def _profile(run: Run, printed: Sequence[str], _say: Callable[[str], None]) -> Path:
    assert list(printed) == ["ran"]
    tables = {KERNEL: [kernel()], "StringIds": strings()}
    return write(run.output / "toy.sqlite", tables)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Profiler:
    """Register a profiler that records timelines and counts on no GPU but 99.0."""
    found = Profiler(
        "toy",
        lambda: Finding("toy", "ok", "7.1 (/opt/toy)"),
        timelines=Timelines(_plan, _profile, lambda *_: None),
        counters=Counters(lambda capability: capability == "99.0", _plan, lambda *_: 1),
    )
    monkeypatch.setitem(sys.modules, "toy_profiler", SimpleNamespace(PROFILER=found))
    monkeypatch.setattr(
        profilers, "REGISTERED", [*profilers.REGISTERED, Entry("toy", "toy_profiler", True)]
    )
    return found


def test_its_run_is_planned(toy: Profiler, tmp_path: Path) -> None:
    target = Command(("python", "train.py"), device="cpu")
    (run,) = plan.runs(target, Profiling(timeline="toy"), tmp_path, None)
    assert run.argv[-3:] == ["toy", "python", "train.py"]
    assert profilers.timeline_profilers() == ["nsys", "nvprof", "torch", "toy"]


def test_its_capture_is_written(toy: Profiler, tmp_path: Path) -> None:
    target = Command(("python", "train.py"), device="cpu")
    result = collect.collect(target, Profiling(timeline="toy"), tmp_path / "capture")
    assert result.status == "ok", result.reason
    document = json.loads((tmp_path / "capture" / "capture.json").read_text())
    (file,) = document["files"]
    assert file == {
        "file": "toy.sqlite", "role": "timeline", "tool": "toy", "tool_version": "7.1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("capability", "name"), [("6.0", "nvprof"), ("7.0", "ncu"), ("9.0", "ncu"), ("99.0", "toy")]
)
def test_the_profiler_that_supports_the_gpu_counts(
    toy: Profiler, capability: str, name: str
) -> None:
    assert counting_profiler(capability).name == name


def test_the_option_offers_profilers_of_timelines() -> None:
    result = CliRunner().invoke(app, ["collect", "resnet50", "--profiler", "ncu", "--dry-run"])
    assert result.exit_code == 2
    assert "nsys" in result.output
    assert "nvprof" in result.output
