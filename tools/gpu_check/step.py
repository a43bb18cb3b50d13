"""Describe a step of the check: its commands, and what their results must show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_check.answers import Answers

Measure = Callable[[Answers], Any]

GPU, NSYS, NCU = "gpu", "nsys", "ncu"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A number or text that a step must give."""

    what: str
    expected: str | Measure  # in words, or the true value, measured in another way
    measured: Measure
    passes: Callable[[Any, Any], bool]  # of the measured and the expected value
    needs_gpu: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """Commands to run, and expectations of their results.

    ``commands`` have the fields of ``Machine.fields`` and ``{nsys}``; a name without a directory is
    a file in the step's directory. ``captures`` are files and directories to archive.
    """

    name: str
    limit_s: float
    commands: tuple[str, ...]
    expectations: tuple[Expectation, ...] = ()
    captures: tuple[str, ...] = ()
    needs: tuple[str, ...] = (GPU,)


def at_least(what: str, measured: Measure, least: float, *, needs_gpu: bool = True) -> Expectation:
    """Expect a number of at least ``least``."""
    return Expectation(
        what, f"at least {least:g}", measured, lambda actual, _: actual >= least, needs_gpu
    )


def between(
    what: str, measured: Measure, least: float, most: float, *, needs_gpu: bool = True
) -> Expectation:
    """Expect a number from ``least`` to ``most``."""
    words = f"{least:g} to {most:g}"
    return Expectation(what, words, measured, lambda actual, _: least <= actual <= most, needs_gpu)


def near(
    what: str, measured: Measure, truth: Measure, percent: float, *, needs_gpu: bool = True
) -> Expectation:
    """Expect a number within ``percent`` of the true one."""

    def passes(actual: float, true: float) -> bool:
        return abs(actual - true) <= percent / 100 * abs(true)

    return Expectation(f"{what} (±{percent:g} %)", truth, measured, passes, needs_gpu)


def equal(what: str, measured: Measure, value: Any, *, needs_gpu: bool = True) -> Expectation:
    """Expect a value; ``value`` may measure it."""
    if callable(value):
        return Expectation(what, value, measured, lambda actual, true: actual == true, needs_gpu)
    return Expectation(what, str(value), measured, lambda actual, _: actual == value, needs_gpu)


def inside(what: str, measured: Measure, bounds: Measure) -> Expectation:
    """Expect a number between two that ``bounds`` returns."""
    return Expectation(what, bounds, measured, lambda actual, true: true[0] <= actual <= true[1])
