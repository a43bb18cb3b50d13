"""Measure changes whose effect is known by construction, again and again.

``TBD_TRACE_TRIALS`` sets how often. "Too busy for an answer" counts as right.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tbd_collectors.collection_request import Command
from tbd_collectors.forked_runs import forked_runs
from tbd_collectors.speedup import Outcome
from tbd_collectors.trial import Trial

pytest.importorskip("torch")

SCRIPTS = Path(__file__).parents[1] / "interpreters" / "trials"
MODULES = ["numpy", "torch", "torch._dynamo"]
TRIALS = int(os.environ.get("TBD_TRACE_TRIALS", "20"))
PAIRS = 6
RIGHT = 0.95  # of the trials


def outcomes(script: str, change: str, trials: int) -> Counter[tuple[Outcome, str]]:
    command = (sys.executable, str(SCRIPTS / f"{script}.py"))
    target = Command(command, "cpu", iterations=20, warmup=12)
    found: Counter[tuple[Outcome, str]] = Counter()
    with forked_runs(command, MODULES) as argv:
        assert argv is not None
        for _ in range(trials):
            trial = Trial(target, argv, change, 120.0, say=lambda _text: None)
            speedup = trial.run_pairs(PAIRS)
            assert trial.learns_alike() is not False
            found[speedup.outcome, f"{speedup.factor:.1f}"] += 1
    return found


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.slow
@pytest.mark.nightly(
    covered_by="tests/integration/test_try.py::test_the_change_that_why_tries_first_is_measured"
)
@pytest.mark.parametrize(
    ("script", "change", "truth", "least", "most"),
    [
        ("waits_for_input", "workers=4", Outcome.FASTER, 2.5, 5.0),
        ("collects_garbage", "no_gc", Outcome.FASTER, 1.2, 20.0),
        ("updates_one_by_one", "fused_optimizer", Outcome.FASTER, 1.3, 5.0),
        ("computes_in_python", "fused_optimizer", Outcome.NO_DIFFERENCE, 0.9, 1.1),
        ("multiplies_matrices", "no_gc", Outcome.NO_DIFFERENCE, 0.9, 1.1),
    ],
)
def test_effects_are_found(
    script: str, change: str, truth: Outcome, least: float, most: float
) -> None:
    found = outcomes(script, change, TRIALS)
    right = sum(
        count
        for (outcome, factor), count in found.items()
        if outcome is Outcome.TOO_BUSY or (outcome is truth and least <= float(factor) <= most)
    )
    assert right >= RIGHT * TRIALS, found


@pytest.mark.slow
@pytest.mark.nightly(covered_by="tests/unit/collectors/test_speedup.py::test_outcomes")
def test_equal_programs_show_no_difference() -> None:
    trials = 5 * TRIALS
    found = outcomes("multiplies_matrices", "threads=1", trials)
    wrong = sum(
        count
        for (outcome, _), count in found.items()
        if outcome in (Outcome.FASTER, Outcome.SLOWER)
    )
    assert wrong <= (1 - RIGHT) * trials, found
