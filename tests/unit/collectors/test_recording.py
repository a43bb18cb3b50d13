"""When enough of a command has been recorded, by the file that its training writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tbd_collectors import recording as module
from tbd_collectors.collection_request import Command
from tbd_collectors.launcher import LauncherRank
from tbd_collectors.profiler import COUNTERS, TIMELINE, Run
from tbd_collectors.recording import BARE, Recording
from tbd_models.instrument.marks import PROGRESS_VARIABLE

TRAINING = {"state": "training", "iterations": 4, "steps": 9, "first_marked": 2, "warmup": 5}


class Followed:
    """A recording with its messages; `write` sets the progress of the program."""

    def __init__(self, directory: Path, run: Run, **options: Any) -> None:
        self.directory = directory
        self.said: list[str] = []
        target = Command(("train",), iterations=4, keep_running=options.pop("keep", False))
        fields = {"iterations": 4, "launch": None} | options
        self.recording = Recording(target, run, directory, say=self.said.append, **fields)
        self.asked = json.loads(self.recording.variables()[PROGRESS_VARIABLE])

    def write(self, **changes: Any) -> None:
        Path(self.asked["file"]).write_text(json.dumps(TRAINING | changes))


@pytest.fixture
def inside(tmp_path: Path) -> Followed:
    run = Run(TIMELINE, "torch", [], tmp_path / "trace.json", in_program=True)
    return Followed(tmp_path, run)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Followed:
    monkeypatch.setattr(module, "_FLUSH_S", 0)
    stop = (sys.executable, "-c", f"open({str(tmp_path / 'was stopped')!r}, 'a').write('x')")
    return Followed(tmp_path, Run(TIMELINE, "nsys", [], tmp_path / "report", stop=stop))


def test_the_program_is_needed_until_all_is_done(inside: Followed) -> None:
    assert (inside.asked["warmup"], inside.asked["bare"], inside.asked["in_program"]) == (
        5, BARE, True
    )  # fmt: skip
    assert (inside.recording.has_begun(), inside.recording.is_enough()) == (False, False)
    for state, is_enough in (("training", False), ("recorded", False), ("done", True)):
        inside.write(state=state)
        assert (inside.recording.has_begun(), inside.recording.is_enough()) == (True, is_enough)
    assert inside.said == ["timeline: 4 iterations recorded; the program is stopped"]


def test_one_iteration(inside: Followed) -> None:
    inside.write(state="done", iterations=1)
    assert inside.recording.is_enough()
    assert inside.said == ["timeline: 1 iteration recorded; the program is stopped"]


def test_times_without_the_profiler_are_waited_for_briefly(
    inside: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    inside.write(state="recorded")
    assert not inside.recording.is_enough()
    now[0] = 21
    assert inside.recording.is_enough()


def test_a_profiler_outside_is_stopped_once(outside: Followed) -> None:
    outside.write(state="training")
    assert not outside.recording.is_enough()
    assert not Path(outside.asked["stopped"]).exists()
    outside.write(state="recorded")
    assert not outside.recording.is_enough()
    assert Path(outside.asked["stopped"]).exists()
    outside.write(state="done")
    assert outside.recording.is_enough()
    assert (outside.directory / "was stopped").read_text() == "x"


def test_a_profiler_outside_is_stopped_before_the_program(outside: Followed) -> None:
    outside.recording.before_stop()
    assert not (outside.directory / "was stopped").exists()
    outside.write()
    outside.recording.before_stop()
    assert (outside.directory / "was stopped").exists()


def test_all_ranks_are_waited_for(tmp_path: Path) -> None:
    run = Run(TIMELINE, "torch", [], tmp_path / "trace.json", in_program=True)
    first = Followed(tmp_path, run, launch=LauncherRank(0, 2, tmp_path))
    assert first.asked["bare"] == 0
    first.write(state="done")
    assert not first.recording.is_enough()
    (tmp_path / ".recorded.1").touch()
    assert first.recording.is_enough()


def test_a_counter_run_is_short(tmp_path: Path) -> None:
    counting = Followed(tmp_path, Run(COUNTERS, "ncu", [], tmp_path / "counters.csv"))
    assert (counting.asked["warmup"], counting.asked["bare"]) == (0, 0)
    counting.write(state="done")
    assert counting.recording.is_enough()
    assert counting.said == []


def test_the_warm_up_does_not_count_in_a_short_training(
    inside: Followed, outside: Followed
) -> None:
    for followed in (inside, outside):
        followed.write(iterations=0, steps=4)
        report = followed.recording.report()
        assert (report["iterations"], report["warmup"], report["steps"]) == (0, 5, 4)


def test_the_size_of_a_large_trace_is_said(
    inside: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SAY_EVERY_S", -1)
    (inside.directory / ".7.trace.json").write_bytes(b"x" * 3_000_000)
    # A trace that gets its name in this moment.
    (inside.directory / ".8.trace.json").symlink_to(inside.directory / "none")
    inside.write()
    assert not inside.recording.is_enough()
    assert inside.recording.is_writing()
    assert inside.said == ["timeline: 3 MB of the trace are written"]
