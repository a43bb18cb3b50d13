"""The training loop of every framework: warm up until stable, then a window of iterations."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tbd_models.instrument.marks import WINDOW, Marks, marked
from tbd_models.stability import judge


class Trainer(Protocol):
    """A model in training; one class per framework."""

    def step(self, marks: Marks) -> None:
        """Run one training iteration with its phases marked."""

    def synchronize(self) -> None:
        """Wait until the device has done all work."""

    def reserved_bytes(self) -> int | None:
        """Return the device memory that the allocator holds, None where that is unknown."""

    def loss(self) -> float:
        """Return the loss of the last iteration."""

    def start_profiler(self) -> None:
        """Tell the CUDA profiler to begin, where there is one."""

    def stop_profiler(self) -> None:
        """Tell the CUDA profiler to stop, where there is one."""


@dataclass(frozen=True, slots=True)
class Window:
    """What to run.

    Attributes:
        iterations: iterations to measure.
        warmup: iterations before them; None means until they are stable.
        max_warmup: most iterations before them.
        max_warmup_seconds: longest time before them.
    """

    iterations: int = 12
    warmup: int | None = None
    max_warmup: int = 100
    max_warmup_seconds: float = 60.0


@dataclass(slots=True)
class Measured:
    """What was measured, on the host's monotonic clock.

    Attributes:
        warmup: iterations before the window.
        stable: whether they had become stable; None where their number was given.
        reason: why they had not.
        iteration_ns: time from the start of each iteration in the window to the start of the next,
            for the last one to the end of the window.
        seconds: length of the window, device idle at both ends.
        losses: loss of the first iteration, of the last before the window and of the last in it.
    """

    warmup: int = 0
    stable: bool | None = None
    reason: str = ""
    iteration_ns: list[int] = field(default_factory=list)
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        # JSON has no NaN and no infinity.
        return fields | {"losses": [x if math.isfinite(x) else None for x in self.losses]}


def measure(trainer: Trainer, window: Window, marks: Marks) -> Measured:
    """Warm a trainer up and measure its window, inside which the CUDA profiler runs."""
    measured = Measured()
    _warm_up(trainer, window, marks, measured)
    starts = []
    trainer.synchronize()
    with _profiled(trainer, marks):
        for number in range(measured.warmup, measured.warmup + window.iterations):
            starts.append(time.perf_counter_ns())
            with marked(marks, f"iteration {number}"):
                trainer.step(marks)
                if len(starts) == window.iterations:
                    trainer.synchronize()
        end = time.perf_counter_ns()
    measured.iteration_ns = [
        later - earlier for earlier, later in zip(starts, [*starts[1:], end], strict=True)
    ]
    measured.seconds = (end - starts[0]) / 1e9
    measured.losses.append(trainer.loss())
    return measured


@contextmanager
def _profiled(trainer: Trainer, marks: Marks) -> Iterator[None]:
    trainer.start_profiler()
    try:
        with marked(marks, WINDOW):
            yield
    finally:
        trainer.stop_profiler()


def _warm_up(trainer: Trainer, window: Window, marks: Marks, measured: Measured) -> None:
    """Run iterations until they are stable, or until there were enough."""
    times: list[float] = []
    memory: list[int] = []
    begin = time.perf_counter()
    limit = window.max_warmup if window.warmup is None else window.warmup
    while len(times) < limit:
        start = time.perf_counter()
        with marked(marks, f"iteration {len(times)}"):
            trainer.step(marks)
            # One by one: the host would run ahead and time its own queueing.
            trainer.synchronize()
        times.append(time.perf_counter() - start)
        if not measured.losses:
            measured.losses.append(trainer.loss())
        if (reserved := trainer.reserved_bytes()) is not None:
            memory.append(reserved)
        if window.warmup is None:
            verdict = judge(times, memory)
            measured.stable, measured.reason = verdict.stable, verdict.reason
            if verdict.stable or time.perf_counter() - begin > window.max_warmup_seconds:
                break
    measured.warmup = len(times)
    if times:
        measured.losses.append(trainer.loss())
