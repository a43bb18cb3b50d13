"""Pairs of runs without and with a change: order, end, losses, and Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbd_collectors.collection_request import Command
from tbd_collectors.trial import TimedRun, Trial, requested, working_copy
from tbd_models.instrument.trial_request import TrialRequest
from tbd_models.instrument.trial_request import requested as requested_of_program


class MadeTrial(Trial):
    """Runs of made times: 100 ms as it is, and a time of its own with the change."""

    step_ms, changed_ms = 100.0, 50.0
    order: list[tuple[str | None, int]]
    loss_of_change = 0.0
    spread = 0.01

    def _timed(self, change: str | None, seed: int) -> TimedRun:
        self.order.append((change, seed))
        if len(self.order) == 20:
            raise KeyboardInterrupt
        ms = self.step_ms if change is None else self.changed_ms * (1 + self.spread * (seed % 2))
        loss = 2.0 + 0.01 * seed + (self.loss_of_change if change else 0.0)
        return TimedRun(ms * 1e6, [loss] * 5)


@pytest.fixture
def trial() -> MadeTrial:
    command = ("python", "x.py")
    made = MadeTrial(Command(command), command, "amp", 60.0, lambda _text: None)
    made.order = []
    return made


def test_runs_take_turns_until_the_interval_is_narrow(trial: MadeTrial) -> None:
    found = trial.run_pairs(12)
    assert (found.pairs, found.factor) == (4, pytest.approx(2.0, rel=0.01))
    pilot, first_two = (None, 0), [(None, 0), ("amp", 0), ("amp", 1), (None, 1)]
    assert trial.order[:5] == [pilot, *first_two]
    assert len(trial.order) == 9


@pytest.mark.parametrize(
    ("step_ms", "asked", "timed"), [(100.0, 12, 12), (100.0, 4, 10), (7.0, 12, 143), (1.0, 12, 200)]
)
def test_runs_of_short_steps_time_more_of_them(
    trial: MadeTrial, step_ms: float, asked: int, timed: int
) -> None:
    trial.command = Command(("python", "x.py"), iterations=asked)
    trial.step_ms = step_ms
    trial.run_pairs(4)
    assert trial.command.iterations == timed


def test_losses_of_a_pair_have_the_same_seed(trial: MadeTrial) -> None:
    trial.run_pairs(12)
    assert trial.learns_alike() is True
    trial.before, trial.after, trial.order = [], [], []
    trial.loss_of_change = 0.5
    trial.run_pairs(12)
    assert trial.learns_alike() is False
    trial.before[0] = TimedRun(1.0, [])
    assert trial.learns_alike() is None


def test_an_interrupt_leaves_the_complete_pairs(trial: MadeTrial) -> None:
    trial.order = [(None, 0)] * 10  # the tenth run from here on is interrupted
    trial.spread = 3.0  # never narrow
    with pytest.raises(KeyboardInterrupt):
        trial.run_pairs(12)
    assert len(trial.pairs()) == 4


def test_new_files_of_a_working_copy_vanish(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "train.py").write_text("x")
    with working_copy(tmp_path) as copy:
        assert (copy / "train.py").read_text() == "x"
        (copy / "checkpoint").write_text("new")
        (copy / "data" / "cache").write_text("through the link")
    assert not copy.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"data", "train.py"}
    assert (tmp_path / "data" / "cache").exists()


def test_a_request_holds_for_the_programs_that_are_started(tmp_path: Path) -> None:
    request = TrialRequest("amp", 0, tmp_path / "r.json", tmp_path, is_timed=False)
    before = Path.cwd()
    with requested(request):
        assert requested_of_program() == request
        assert Path.cwd() == tmp_path
    assert requested_of_program() is None
    assert Path.cwd() == before
