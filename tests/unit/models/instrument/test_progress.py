"""What a program reports of its training, and which process reports it."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tbd_models.instrument import progress as module
from tbd_models.instrument.first_process import is_recorded
from tbd_models.instrument.progress import Progress, ProgressRequest, requested

WARMUP, ITERATIONS, BARE = 2, 3, 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return the time in ns, which tests move on; each iteration is written."""
    now = [0]
    monkeypatch.setattr(module.time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(module, "_WRITE_EVERY_S", -1)
    monkeypatch.setattr(module.atexit, "register", lambda *_, **__: None)
    yield now


def request(directory: Path, **changes: Any) -> ProgressRequest:
    fields = {
        "file": directory / "progress.json",
        "iterations": ITERATIONS,
        "warmup": WARMUP,
        "bare": BARE,
        "in_program": True,
        "stopped": directory / "stopped",
    }
    return ProgressRequest(**{**fields, **changes})


def train(progress: Progress, clock: list[int], numbers: range) -> None:
    """Train iterations of N + 1 ms; between two, as long as a trace takes to write."""
    for number in numbers:
        clock[0] += 10**12
        progress.ends_window(number)
        progress.iteration_begins(number)
        clock[0] += (number + 1) * 10**6
        progress.iteration_ends()


def report(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "progress.json").read_text())
    return found


def test_states_and_times(tmp_path: Path, clock: list[int]) -> None:
    progress = Progress(request(tmp_path))
    assert (report(tmp_path)["state"], report(tmp_path)["steps"]) == ("training", 0)
    train(progress, clock, range(5))
    assert (report(tmp_path)["state"], report(tmp_path)["steps"]) == ("training", 5)
    assert report(tmp_path)["profiled"] == {
        "iterations": 3, "seconds": 0.012, "iteration_ns": [3_000_000, 4_000_000, 5_000_000]
    }  # fmt: skip
    train(progress, clock, range(5, 7))
    assert report(tmp_path)["state"] == "recorded"
    train(progress, clock, range(7, 20))
    found = report(tmp_path)
    # The first iteration after the window is not timed.
    assert found["unprofiled"]["iteration_ns"] == [7_000_000, 8_000_000]
    assert (found["state"], found["steps"], found["iterations"]) == ("done", 8, 3)
    assert (found["warmup"], found["first_marked"]) == (WARMUP, 0)


def test_a_profiler_outside_the_program_is_waited_for(tmp_path: Path, clock: list[int]) -> None:
    progress = Progress(request(tmp_path, in_program=False))
    train(progress, clock, range(12))
    assert (report(tmp_path)["state"], report(tmp_path)["unprofiled"]) == ("recorded", None)
    (tmp_path / "stopped").touch()
    train(progress, clock, range(12, 16))
    assert report(tmp_path)["unprofiled"]["iteration_ns"] == [13_000_000, 14_000_000]


def test_without_iterations_to_time(tmp_path: Path, clock: list[int]) -> None:
    train(Progress(request(tmp_path, bare=0)), clock, range(6))
    assert (report(tmp_path)["state"], report(tmp_path)["iterations"]) == ("done", 3)


def test_long_iterations_are_timed_once(tmp_path: Path, clock: list[int]) -> None:
    progress = Progress(request(tmp_path, bare=5))
    train(progress, clock, range(7))
    for number in range(7, 10):
        progress.iteration_begins(number)
        clock[0] += 7 * 10**9
        progress.iteration_ends()
    assert report(tmp_path)["state"] == "done"
    assert report(tmp_path)["unprofiled"]["iterations"] == 3


def test_a_window_is_postponed(tmp_path: Path, clock: list[int]) -> None:
    progress = Progress(request(tmp_path))
    train(progress, clock, range(2))
    progress.postpone(4)
    train(progress, clock, range(2, 7))
    found = report(tmp_path)
    assert (found["warmup"], found["iterations"], found["state"]) == (4, 3, "training")
    assert found["profiled"]["iteration_ns"] == [5_000_000, 6_000_000, 7_000_000]
    assert progress.ends_window(7)


def test_an_interrupted_window_has_the_iterations_before(tmp_path: Path, clock: list[int]) -> None:
    progress = Progress(request(tmp_path))
    train(progress, clock, range(3))
    progress.iteration_begins(3)
    progress.interrupt()
    progress.iteration_ends()
    assert report(tmp_path)["state"] == "training"
    train(progress, clock, range(4, 9))
    found = report(tmp_path)
    # Iterations in which the program profiles itself are not timed.
    assert (found["state"], found["iterations"], found["unprofiled"]) == ("done", 1, None)


def test_marks_that_begin_late_delay_the_window(tmp_path: Path, clock: list[int]) -> None:
    progress = Progress(request(tmp_path, warmup=0), first=2)
    assert report(tmp_path)["steps"] == 2
    train(progress, clock, range(2, 6))
    assert (report(tmp_path)["warmup"], report(tmp_path)["iterations"]) == (2, 3)


def test_the_device_is_waited_for_at_both_ends_of_a_measurement(
    tmp_path: Path, clock: list[int]
) -> None:
    waits: list[int] = []
    progress = Progress(request(tmp_path), synchronize=lambda: waits.append(progress._number))
    train(progress, clock, range(10))
    assert waits == [4, 6, 7]


def test_without_a_request_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, clock: list[int]
) -> None:
    monkeypatch.delenv("TBD_TRACE_PROGRESS", raising=False)
    progress = Progress(requested())
    train(progress, clock, range(30))
    assert not progress.ends_window(5)


def test_the_environment_hands_the_request_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(tmp_path)
    for name, value in asked.variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RANK", "0")
    assert requested() == asked
    monkeypatch.setenv("RANK", "1")
    assert requested() is None


# The process that is recorded.


def _ask(file: Path, answers: Any) -> None:
    os.environ.pop("RANK", None)
    answers.put(is_recorded(file))


def _of_another_process(file: Path) -> bool:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    other = context.Process(target=_ask, args=(file, answers))
    other.start()
    found: bool = answers.get(timeout=60)
    other.join()
    return found


def test_the_first_process_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert is_recorded(tmp_path / "a")
    assert is_recorded(tmp_path / "a")
    assert not _of_another_process(tmp_path / "a")


def test_another_one_takes_the_place_of_one_that_ended_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert _of_another_process(tmp_path / "a")
    assert is_recorded(tmp_path / "a")
    assert _of_another_process(tmp_path / "b")
    (tmp_path / "b").touch()
    assert not is_recorded(tmp_path / "b")
    assert not is_recorded(tmp_path / "no such directory" / "b")


@pytest.mark.parametrize(
    ("rank", "every", "expected"), [("0", "", True), ("1", "", False), ("1", "1", True)]
)
def test_launchers_number_processes(
    rank: str, every: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("TBD_TRACE_EVERY_RANK", every)
    assert is_recorded(tmp_path / "a") is expected
    assert not list(tmp_path.iterdir())
