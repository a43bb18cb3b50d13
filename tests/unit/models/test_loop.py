"""When a run is stable, and the loop that warms up and measures."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbd_models import stability
from tbd_models.instrument.marks import WINDOW
from tbd_models.loop import Window, measure
from tbd_models.stability import check_stability, theil_sen_slope

TIMES = st.lists(st.integers(1, 10_000).map(float), min_size=3, max_size=60)


def _slope(values: list[float]) -> float:
    y = np.array(values)
    i, j = np.triu_indices(len(y), 1)
    return float(np.median((y[j] - y[i]) / (j - i)))


def _is_stable(times: list[float], memory: list[int], wanted: int) -> bool:
    """The rule by brute force."""
    for count in range(wanted, min(len(times), 40) + 1):
        last = np.array(times[-count:])
        spread = last.std(ddof=1)
        grows = np.any(np.diff(memory[-count - 1 :]) > 0)
        trend = abs(_slope(times[-count:])) * count
        if not grows and spread < 0.05 * last.mean() and (trend < spread or spread == 0):
            return True
    return False


@pytest.mark.slow
@given(TIMES)
def test_slope_is_the_median_of_all_pairs(times: list[float]) -> None:
    assert theil_sen_slope(times) == pytest.approx(_slope(times), rel=1e-12, abs=1e-12)


@pytest.mark.slow
@given(
    base=st.integers(100, 10_000),
    noise=st.lists(st.integers(0, 12), min_size=1, max_size=60),
    start=st.lists(st.integers(1, 100_000).map(float), max_size=5),
    growth=st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, 1, -1]), min_size=65, max_size=65),
    wanted=st.integers(3, 12),
)
def test_verdict_is_the_rule_by_brute_force(
    base: int, noise: list[int], start: list[float], growth: list[int], wanted: int
) -> None:
    times = start + [base * (1 + n / 200) for n in noise]
    memory = list(itertools.accumulate(growth[: len(times)]))
    verdict = check_stability(times, memory, wanted)
    assert verdict.stable == _is_stable(times, memory, wanted)
    assert bool(verdict.reason) != verdict.stable


@given(TIMES, st.integers(-20, 20))
def test_the_unit_of_time_does_not_matter(times: list[float], power: int) -> None:
    assert check_stability([t * 2.0**power for t in times]).stable == check_stability(times).stable


@pytest.mark.slow
@given(
    start=st.floats(1, 1000),
    step=st.floats(0.001, 100),
    count=st.integers(10, 60),
    falling=st.booleans(),
)
def test_a_trend_is_never_stable(start: float, step: float, count: int, falling: bool) -> None:
    times = [start + step * n for n in range(count)]
    assert not check_stability(times[::-1] if falling else times).stable


@given(st.floats(0, 1e9), st.integers(10, 50))
def test_what_never_changes_is_stable(value: float, count: int) -> None:
    verdict = check_stability([value] * count)
    assert (verdict.stable, verdict.iterations) == (True, 10)


@pytest.mark.parametrize("grew_at", range(12))
def test_memory_that_grows_inside_the_run_is_not_stable(grew_at: int) -> None:
    memory = [100 if number < grew_at else 200 for number in range(12)]
    verdict = check_stability([1.0] * 12, memory)
    # The last ten iterations have the numbers 2 to 11.
    assert verdict.stable == (grew_at < 2)
    if not verdict.stable:
        assert "memory" in verdict.reason


def test_too_few_iterations_say_so_and_too_few_wanted_are_refused() -> None:
    assert check_stability([1.0] * 9).reason == "fewer than 10 iterations"
    with pytest.raises(ValueError, match="3 iterations"):
        check_stability([1.0] * 9, wanted=stability.LEAST - 1)


class Clock:
    """A clock that stands still unless a fake trainer works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ns = 1_000
        monkeypatch.setattr(time, "perf_counter_ns", lambda: self.ns)
        monkeypatch.setattr(time, "perf_counter", lambda: self.ns / 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Log:
    """Marks that write down what happens."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def push(self, text: str) -> None:
        self.events.append(text)

    def pop(self) -> None:
        self.events.append("end")

    def start(self, text: str) -> None:
        raise AssertionError(text)

    def end(self, handle: None) -> None:
        raise AssertionError


class Trainer:
    """Takes the given durations; the device lags behind the host."""

    def __init__(self, clock: Clock, durations: list[int], log: Log, fails_at: int = -1) -> None:
        self._clock, self._durations, self._log = clock, durations, log
        self._fails_at = fails_at
        self.steps = self._queued = 0

    def step(self, marks: Any) -> None:
        if self.steps == self._fails_at:
            raise RuntimeError("broken")
        self._clock.ns += 10
        self._queued += self._durations[min(self.steps, len(self._durations) - 1)] - 10
        self.steps += 1
        self._log.events.append("step")

    def synchronize(self) -> None:
        self._clock.ns += self._queued
        self._queued = 0
        self._log.events.append("synchronize")

    def reserved_bytes(self) -> int | None:
        return None

    def loss(self) -> float:
        return 100.0 - self.steps

    def start_profiler(self) -> None:
        self._log.events.append("profile")

    def stop_profiler(self) -> None:
        self._log.events.append("stop")


def test_warm_up_ends_when_times_are_stable(clock: Clock) -> None:
    log = Log()
    trainer = Trainer(clock, [9000, 5000, 2000, *[1000, 1010, 1005] * 9], log)
    measured = measure(trainer, Window(iterations=4), log)
    assert measured.stable is True
    assert measured.reason == ""
    assert 13 <= measured.warmup <= 16
    assert trainer.steps == measured.warmup + 4
    assert measured.losses == [99.0, 100.0 - measured.warmup, 96.0 - measured.warmup]


def test_warm_up_ends_at_the_most_iterations(clock: Clock) -> None:
    log = Log()
    trainer = Trainer(clock, [1000 * n for n in range(1, 40)], log)
    measured = measure(trainer, Window(iterations=2, max_warmup=17), log)
    assert (measured.warmup, measured.stable) == (17, False)
    assert "vary" in measured.reason


def test_warm_up_ends_when_time_is_up(clock: Clock) -> None:
    log = Log()
    trainer = Trainer(clock, [int(1e9), int(3e9)] * 50, log)
    measured = measure(trainer, Window(iterations=1, max_warmup_seconds=10.0), log)
    assert (measured.warmup, measured.stable) == (6, False)  # 4 seconds every two iterations


@pytest.mark.parametrize("warmup", [0, 1, 7])
def test_marks_count_on_from_the_warm_up(clock: Clock, warmup: int) -> None:
    log = Log()
    trainer = Trainer(clock, [500], log)
    measured = measure(trainer, Window(iterations=3, warmup=warmup), log)
    assert (measured.warmup, measured.stable) == (warmup, None)
    last = warmup + 2
    expected = []
    for number in range(warmup):
        expected += [f"iteration {number}", "step", "synchronize", "end"]
    expected += ["synchronize", "profile", WINDOW]
    for number in range(warmup, last):
        expected += [f"iteration {number}", "step", "end"]
    expected += [f"iteration {last}", "step", "synchronize", "end", "end", "stop"]
    assert log.events == expected
    assert len(measured.losses) == (3 if warmup else 1)


@given(st.lists(st.integers(10, 10**9), min_size=1, max_size=30))
def test_iterations_add_up_to_the_window(durations: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        log = Log()
        trainer = Trainer(Clock(patch), durations, log)
        measured = measure(trainer, Window(iterations=len(durations), warmup=0), log)
    assert len(measured.iteration_ns) == len(durations)
    assert sum(measured.iteration_ns) == sum(durations)
    assert measured.seconds == sum(durations) / 1e9
    assert set(measured.as_dict()) == {
        "warmup", "stable", "reason", "iteration_ns", "seconds", "losses"
    }  # fmt: skip


def test_a_failing_step_closes_its_ranges_and_the_profile(clock: Clock) -> None:
    log = Log()
    with pytest.raises(RuntimeError, match="broken"):
        measure(Trainer(clock, [500], log, fails_at=2), Window(3, warmup=1), log)
    assert log.events[-3:] == ["end", "end", "stop"]
