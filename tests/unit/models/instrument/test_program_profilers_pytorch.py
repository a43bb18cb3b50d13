"""A program that uses torch.profiler while tbd-trace records it with torch.profiler."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.autograd import profiler as inner  # noqa: E402
from torch.profiler import ProfilerActivity, profile, schedule  # noqa: E402

from tbd_models.instrument.marks import REPORT_VARIABLE  # noqa: E402
from tbd_models.instrument.profiler_training_pytorch import (  # noqa: E402
    TraceRequest,
    TrainingTrace,
)
from tbd_models.instrument.program_profilers_pytorch import ProgramProfilers  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = [ProfilerActivity.CPU]


class Noticed:
    """Profilers that begin, as tbd-trace notices them."""

    def __init__(self) -> None:
        self.is_recording = True
        self.interruptions = 0
        self.profilers = ProgramProfilers(lambda: self.is_recording, self.interrupt)

    def interrupt(self) -> None:
        self.interruptions += 1
        self.is_recording = False


@pytest.fixture
def noticed() -> Iterator[Noticed]:
    found = Noticed()
    yield found
    found.profilers.remove()


@pytest.mark.parametrize(
    "begin", [lambda: profile(activities=CPU), inner.profile], ids=["torch.profiler", "autograd"]
)
def test_a_recording_is_ended_before_another_profiler_begins(
    begin: Callable[[], Any], noticed: Noticed
) -> None:
    for _ in range(2):
        assert not noticed.profilers.is_any_running()
        with begin():
            assert noticed.profilers.is_any_running()
    assert noticed.interruptions == 1


def test_a_profiler_that_is_only_prepared_runs(noticed: Noticed) -> None:
    steps = schedule(wait=1, warmup=1, active=1, repeat=1)
    with profile(activities=CPU, schedule=steps) as own:
        running = [noticed.profilers.is_any_running()]
        for _ in range(3):
            own.step()
            running.append(noticed.profilers.is_any_running())
    assert running == [False, True, True, False]


def test_a_profiler_that_began_before_runs() -> None:
    steps = schedule(wait=0, warmup=2, active=1)
    with profile(activities=CPU, schedule=steps):
        profilers = ProgramProfilers(lambda: False, lambda: None)
        profilers.remove()
        assert profilers.is_any_running()


def test_removing_restores_the_classes() -> None:
    before = inner.profile._prepare_trace, inner.profile.__exit__, profile.step
    found = Noticed()
    assert inner.profile._prepare_trace is not before[0]
    found.profilers.remove()
    assert (inner.profile._prepare_trace, inner.profile.__exit__, profile.step) == before


# A training that is recorded.


class Training:
    """A loop whose window has the iterations 1 to 4, with the trace."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.optimizer = optimizer
        request = TraceRequest(directory / "t.gz", 1, 4, report=directory / "r.json")
        self.trace = TrainingTrace(self.model, optimizer, request)

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.model(torch.ones(1, 2)).sum().backward()
            self.optimizer.step()

    def recorded(self) -> list[str]:
        self.trace.remove()
        with gzip.open(self.directory / "t.gz") as file:
            events = json.load(file)["traceEvents"]
        ranges = [
            event
            for event in events
            if event.get("cat") == "user_annotation" and "finished" not in event["args"]
        ]
        names = [event["name"] for event in sorted(ranges, key=lambda event: event["ts"])]
        return [name for name in names if name.startswith(("iteration", "ProfilerStep"))]

    def problem(self) -> str | None:
        report = json.loads((self.directory / "auto.json").read_text())
        found: str | None = report["problem"]
        return found


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Training]:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv(REPORT_VARIABLE, str(tmp_path / "auto.json"))
    found = Training(tmp_path)
    yield found
    found.trace.remove()


def test_the_window_ends_where_the_program_profiles_itself(training: Training) -> None:
    training.step(3)
    with profile(activities=CPU) as own:
        training.step()
    training.step(6)
    assert training.recorded() == ["iteration 1", "iteration 2"]
    names = [event.name for event in own.events()]
    assert names.count("aten::addmm") == 1
    assert not [name for name in names if name.startswith(("iteration", "layer", "phase"))]
    assert json.loads((training.directory / "r.json").read_text())["iterations"] == 2
    assert "which ended the recording after 2 iterations" in str(training.problem())


def test_the_window_begins_when_the_profiler_of_the_program_has_ended(training: Training) -> None:
    with profile(activities=CPU):
        training.step(3)
    assert training.problem() == (
        "the program profiles itself with torch.profiler; use --profiler nsys"
    )
    training.step(9)
    assert training.recorded() == [f"iteration {n}" for n in range(4, 8)]
    assert training.problem() is None


def test_a_window_without_a_whole_iteration_begins_again(training: Training) -> None:
    training.step()
    with profile(activities=CPU):
        training.step()
    training.step(6)
    assert training.recorded() == [f"iteration {n}" for n in range(3, 7)]


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_steps_of_a_schedule_are_no_iterations(training: Training) -> None:
    """Those that wait are not profiled by the program, and overlap the iterations."""
    with profile(activities=CPU, schedule=schedule(wait=4, warmup=0, active=2)) as own:
        for _ in range(6):
            training.step()
            if own.step_num == 5:
                break
            own.step()
    names = [event.name for event in own.events()]
    assert names.count("ProfilerStep*") == names.count("aten::addmm") == 2
    assert training.recorded() == [f"iteration {n}" for n in range(1, 4)]


def test_ranges_of_the_program_may_span_both_recordings(training: Training) -> None:
    training.step(3)
    spanning = [torch.autograd.profiler.record_function("spanning") for _ in range(50)]
    for one in spanning:
        one.__enter__()
    own = profile(activities=CPU)
    own.start()
    training.step()
    for one in reversed(spanning):
        one.__exit__(None, None, None)
    training.step()
    own.stop()
    assert [event.name for event in own.events()].count("aten::addmm") == 2
    assert training.recorded() == ["iteration 1", "iteration 2"]
