"""Programs that are stopped, alone and below a profiler that ends them when it is interrupted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tbd_collectors import program_stop
from tbd_collectors.process import Completed, run
from tbd_collectors.program_stop import Stopping

# Saves its work on Ctrl-C, which takes a second.
SAVES = """
import pathlib, time
print("ready", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    pathlib.Path("saved").touch()
"""
IGNORES = """
import signal, sys, time
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
# As nsys does: the program has a session of its own and gets SIGTERM when the profiler gets SIGINT;
# the report is written when the program has ended.
PROFILER = """
import pathlib, signal, subprocess, sys
program = subprocess.Popen(sys.argv[1:], start_new_session=True)
signal.signal(signal.SIGINT, lambda *_: program.terminate())
program.wait()
pathlib.Path("report").touch()
"""
BELOW = [sys.executable, "-c", PROFILER]


class Ready:
    """The program is needed until it has said that it is ready."""

    keeps_running = False

    def __init__(self) -> None:
        self.is_ready = False

    def on_line(self, _line: str) -> None:
        self.is_ready = True

    def has_begun(self) -> bool:
        return self.is_ready

    def is_enough(self) -> bool:
        return self.is_ready

    def before_stop(self) -> None:
        pass


class Stopped:
    """A program that was stopped as soon as it was ready, and what was said about it."""

    def __init__(self, argv: list[str], directory: Path, **options: Any) -> None:
        watcher = Ready()
        self.said: list[str] = []
        self.completed: Completed = run(
            argv,
            environment={},
            directory=directory,
            timeout_s=60,
            log=directory / "log",
            on_line=watcher.on_line,
            watcher=watcher,
            stopping=Stopping(say=self.said.append, **options),
        )
        self.files = {path.name for path in directory.iterdir()} - {"log"}


def test_the_program_below_a_profiler_has_time_to_save(tmp_path: Path) -> None:
    stopped = Stopped([*BELOW, sys.executable, "-c", SAVES], tmp_path, has_own_group=True)
    assert stopped.completed.returncode == 0
    assert stopped.files == {"saved", "report"}
    assert stopped.said == []


def test_a_long_wait_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_stop, "_SAY_AFTER_S", 0.2)
    stopped = Stopped([sys.executable, "-c", SAVES], tmp_path)
    assert stopped.files == {"saved"}
    assert stopped.said == ["the program gets up to 60 s to end"]


@pytest.mark.parametrize("ignored", [("SIGINT",), ("SIGINT", "SIGTERM")])
def test_a_program_that_does_not_end_is_terminated(
    ignored: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_stop, "_TERMINATE_S", 0.5)
    program = [sys.executable, "-c", IGNORES, *ignored]
    stopped = Stopped([*BELOW, *program], tmp_path, has_own_group=True, grace_s=0.5)
    assert stopped.said == ["the program did not end in time, and is terminated"]
    assert stopped.files == {"report"}  # the profiler itself was not killed
    alone = Stopped(program, tmp_path, grace_s=0.5)
    assert alone.said == stopped.said


def test_a_profiler_without_a_program_gets_the_signal_itself(tmp_path: Path) -> None:
    stopped = Stopped([sys.executable, "-c", SAVES], tmp_path, has_own_group=True)
    assert stopped.files == {"saved"}


def test_another_ctrl_c_goes_on_to_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets one more SIGINT while it saves a checkpoint, none while it writes its trace."""
    signals = iter([1, 1, 2])
    monkeypatch.setattr(program_stop.stop_signals, "count", lambda: next(signals, 2))
    saves = SAVES.replace("sleep(1)", "sleep(60)")
    writing = iter([False])
    stopped = Stopped([sys.executable, "-c", saves], tmp_path, is_writing=lambda: next(writing))
    assert stopped.said == ["the program gets Ctrl-C again, and 10 s to end"]
    assert stopped.files == set()
    signals = iter([1])
    stopped = Stopped([sys.executable, "-c", SAVES], tmp_path, is_writing=lambda: True)
    assert (stopped.said, stopped.files) == ([], {"saved"})
