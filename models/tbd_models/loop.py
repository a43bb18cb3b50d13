"""Train in any framework: warm up until stable, then measure a window of iterations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tbd_models.instrument.marks import WINDOW, Marks, marked
from tbd_models.progress import Progress
from tbd_models.stability import at_mean_work, check_stability

# From the number of an iteration to its work, in any unit.
Work = Callable[[int], float]


class Trainer(Protocol):
    """A model in training; each framework has a class."""

    def step(self, marks: Marks) -> None:
        """Run one training iteration with its phases marked."""

    def synchronize(self) -> None:
        """Wait until the device is idle."""

    def reserved_bytes(self) -> int | None:
        """Return the device memory that the allocator holds, None if unknown."""

    def loss(self) -> float:
        """Return the loss of the last iteration."""

    def start_profiler(self) -> None:
        """Start the CUDA profiler, if any."""

    def stop_profiler(self) -> None:
        """Stop the CUDA profiler, if any."""


@dataclass(frozen=True, slots=True)
class Window:
    """Numbers of iterations."""

    iterations: int = 12  # to measure
    warmup: int | None = None  # before them; None until times are stable
    max_warmup: int = 100
    max_warmup_seconds: float = 60.0


@dataclass(slots=True)
class Measured:
    """Measurements, in the host's monotonic clock."""

    warmup: int = 0  # iterations before the window
    stable: bool | None = None  # whether warm-up reached stability; None if its length was given
    reason: str = ""  # why it is not stable
    # From the start of each iteration to the start of the next, or to the end of the window.
    iteration_ns: list[int] = field(default_factory=list)
    seconds: float = 0.0  # length of the window; the device is idle at both ends
    # Losses of the first iteration, the last warm-up iteration and the last one of the window.
    losses: list[float] = field(default_factory=list)

    @property
    def numbers(self) -> range:
        """Numbers of the measured iterations."""
        return range(self.warmup, self.warmup + len(self.iteration_ns))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        # JSON has no NaN and no infinity.
        return fields | {"losses": [x if math.isfinite(x) else None for x in self.losses]}


def measure(trainer: Trainer, window: Window, marks: Marks, work: Work | None = None) -> Measured:
    """Warm up, then measure a window in which the CUDA profiler is active.

    If work varies, ``work`` gives that of an iteration: times at the mean work must be stable.
    """
    measured = Measured()
    progress = Progress()
    _warm_up(trainer, window, marks, measured, work, progress)
    starts: list[int] = []
    trainer.synchronize()
    with _profiled(trainer, marks):
        for number in range(measured.warmup, measured.warmup + window.iterations):
            starts.append(time.perf_counter_ns())
            progress.measuring(starts, window.iterations)
            with marked(marks, f"iteration {number}"):
                trainer.step(marks)
                if len(starts) == window.iterations:
                    # Inside the last range, so that the range covers the device's last work.
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


def _warm_up(  # noqa: PLR0917
    trainer: Trainer,
    window: Window,
    marks: Marks,
    measured: Measured,
    work: Work | None,
    progress: Progress,
) -> None:
    times: list[float] = []
    memory: list[int] = []
    begin = time.perf_counter()
    limit = window.max_warmup if window.warmup is None else window.warmup
    while len(times) < limit:
        start = time.perf_counter()
        with marked(marks, f"iteration {len(times)}"):
            trainer.step(marks)
            # Synchronize each iteration: otherwise the host queues ahead and times its queueing.
            trainer.synchronize()
        times.append(time.perf_counter() - start)
        if not measured.losses:
            measured.losses.append(trainer.loss())
        if (reserved := trainer.reserved_bytes()) is not None:
            memory.append(reserved)
        left_s = window.max_warmup_seconds - (time.perf_counter() - begin)
        progress.warming_up(times, window.warmup, left_s)
        if window.warmup is None:
            verdict = check_stability(_comparable(times, work), memory)
            measured.stable, measured.reason = verdict.stable, verdict.reason
            is_over = verdict.stable or time.perf_counter() - begin > window.max_warmup_seconds
            if trainer.agree(is_over) if hasattr(trainer, "agree") else is_over:
                break
    measured.warmup = len(times)
    if times:
        measured.losses.append(trainer.loss())


def _comparable(times: list[float], work: Work | None) -> list[float]:
    if work is None:
        return times
    return at_mean_work(times, [work(number) for number in range(len(times))])
