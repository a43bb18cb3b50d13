"""Largest batch, checkpointing plan and notes of a made program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tbd_collectors.fit.fitting import Fit, Fitting
from tbd_collectors.fit.memory_log import Allocation, MemoryLog
from tbd_collectors.fit.program_memory import ProgramMemory
from tbd_collectors.process import CollectionError

FIXED, PER_SAMPLE = 1000, 30


@dataclass
class MadeRuns:
    """Runs of a program with a weight, and one block whose map grows with the batch."""

    device: str = "cpu"
    fake: bool = True
    batch: int | None = 4
    squared: int = 0  # bytes per square of the batch
    only_real: bool = False
    asked: list[tuple[int | None, tuple[str, ...]]] = field(default_factory=list)

    def on_real_tensors(self) -> MadeRuns:
        self.fake = False
        return self

    def can_resize(self, memory: ProgramMemory) -> bool:
        return memory.report["batch_source"] is not None

    def memory(self, batch: int | None = None, checkpointed: tuple[str, ...] = ()) -> ProgramMemory:
        self.asked.append((batch, checkpointed))
        if self.only_real and self.fake:
            raise CollectionError("an operator has no shapes")
        size = batch or self.batch or 1
        map_bytes = PER_SAMPLE * size + self.squared * size**2
        allocations = {
            0: Allocation("weight", FIXED, "h.0", "setup", None),
            1: Allocation("feature_map", 10 if checkpointed else map_bytes, "h.0", "forward", 0),
            2: Allocation("feature_map", 0, "head", "forward", 0),
            3: Allocation("activation_gradient", 0, "h.0", "backward", 0),
        }
        order = [(0, True), (1, True), (2, True), (3, True), (1, False)]
        report: dict[str, Any] = {
            "batch_size": self.batch,
            "batch_source": "the DataLoader" if self.batch else None,
            "blocks": [{"name": "h.0", "flop": 7, "calls": [[[], [2]]]}],
        }
        return ProgramMemory(MemoryLog(allocations, order), report)


def answer(runs: MadeRuns, limit: int | None, batch: int | None = None) -> Fit:
    return Fitting(runs, limit, None, lambda _text: None).answer(batch)  # type: ignore[arg-type]


def test_without_a_limit_one_run_tells_the_need() -> None:
    runs = MadeRuns()
    found = answer(runs, None)
    assert (found.need.total, found.fits, found.largest) == (FIXED + 4 * PER_SAMPLE, None, None)
    assert runs.asked == [(None, ())]


@pytest.mark.parametrize("limit", [FIXED + 29, FIXED + 30, 5000, 5019, 5020])
def test_the_largest_batch_is_confirmed_by_runs(limit: int) -> None:
    runs = MadeRuns()
    found = answer(runs, limit).largest
    assert found is not None
    assert found.batch == (limit - FIXED) // PER_SAMPLE
    assert found.is_predicted
    assert {found.batch + 1}.issubset(batch for batch, _ in runs.asked)


def test_a_batch_that_is_on_no_line_is_searched_by_runs() -> None:
    runs = MadeRuns(squared=1)
    found = answer(runs, 3000).largest
    assert found is not None
    assert not found.is_predicted
    assert found.batch == 32  # 1000 + 30 * 32 + 32² = 2984
    assert found.needs == {32: 2984, 33: 3079}


def test_a_plan_is_applied_before_it_is_named() -> None:
    runs = MadeRuns()
    found = answer(runs, FIXED + 100)
    assert found.fits is False
    # Its own block frees and makes the map at once, so all that is left is to try it.
    assert found.plan is not None
    assert found.plan.blocks == ("h.0",)
    assert (found.plan.need.total, found.plan.fits) == (FIXED + 10, True)
    assert not found.plan.is_cheapest  # as modelled, it does not fit
    assert (None, ()) in runs.asked
    assert (4, ("h.0",)) in runs.asked


def test_an_unknown_batch_is_said() -> None:
    found = answer(MadeRuns(batch=None), 5000)
    assert found.largest is None
    assert found.notes == [
        "the largest batch is unknown: write {batch} in place of it in the command"
    ]


def test_a_program_that_needs_data_runs_on_real_tensors() -> None:
    found = answer(MadeRuns(only_real=True), None)
    assert not found.is_fake
    assert found.notes == ["tensors are real, on the CPU: without data, an operator has no shapes"]
