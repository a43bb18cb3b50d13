"""The rules, on programs that are played until no rank can go on: the fault is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_flight import FILE, Made, job_of, played
from tbd_trace.analysis.hang.job import Job
from tbd_trace.analysis.hang.rules import diagnose
from tbd_trace.analysis.hang.verdict import Verdict

# A step: parameters, gradients of the pair and of all ranks, the loss in a second group of all.
BROADCAST, PAIR, GRADIENTS, LOSS, BARRIER, WRONG = 10, 11, 12, 13, 14, 20


@dataclass(frozen=True)
class Run:
    """A training of several steps, in which one rank goes wrong."""

    world: int
    rank: int
    step: int
    steps: int

    @property
    def groups(self) -> dict[str, list[int]]:
        everyone = list(range(self.world))
        return {"0": everyone, "1": everyone[: self.world // 2 + 1], "2": everyone}

    def programs(self) -> dict[int, list[Made]]:
        """Return the calls of each rank without a fault."""
        step = [
            Made("0", BROADCAST, "broadcast", (64,)),
            Made("1", PAIR, shape=(2,)),
            Made("0", GRADIENTS, shape=(64,)),
            Made("2", LOSS, shape=(1,)),
            Made("0", BARRIER, "barrier", ()),
        ]
        return {
            rank: [made for made in step * self.steps if rank in self.groups[made.group]]
            for rank in range(self.world)
        }

    def place(self, line: int) -> int:
        """Return the position of the call of a line in the wrong step of the wrong rank."""
        calls = self.programs()[self.rank]
        found = [at for at, made in enumerate(calls) if made.line == line]
        return found[self.step]

    def job(self, programs: dict[int, list[Made]], **dumps: str) -> Job:
        return job_of(played(programs, self.groups), self.groups, **dumps)


@st.composite
def runs(draw: st.DrawFn, first_step: int = 0) -> Run:
    world = draw(st.integers(3, 8))
    steps = draw(st.integers(first_step + 1, 4))
    return Run(
        world, draw(st.integers(0, world - 1)), draw(st.integers(first_step, steps - 1)), steps
    )


def line_of(verdict: Verdict) -> str:
    return str(verdict.place)


def stop(run: Run, line: int) -> dict[int, list[Made]]:
    programs = run.programs()
    del programs[run.rank][run.place(line) :]
    return programs


@given(runs())
def test_finished_program_names_no_rank(run: Run) -> None:
    verdict = diagnose(run.job(run.programs()))
    assert (verdict.rule, verdict.ranks) == ("healthy", frozenset())


@given(runs(), st.sampled_from([GRADIENTS, LOSS, BARRIER]))
def test_rank_that_never_calls_is_named_with_line(run: Run, line: int) -> None:
    verdict = diagnose(run.job(stop(run, line)))
    assert verdict.ranks == {run.rank}
    assert line_of(verdict) == f"{FILE}:{line}"
    assert set(verdict.waiting) == set(range(run.world)) - {run.rank}


@given(runs(), st.sampled_from(["operation", "shape", "dtype"]))
def test_call_that_differs_is_that_of_minority(run: Run, changed: str) -> None:
    programs, at = run.programs(), run.place(GRADIENTS)
    value = {"operation": "broadcast", "shape": (65,), "dtype": "Double"}[changed]
    programs[run.rank][at] = replace(programs[run.rank][at], line=WRONG, **{changed: value})
    verdict = diagnose(run.job(programs))
    assert (verdict.rule, verdict.ranks) == ("mismatch", {run.rank})
    assert line_of(verdict) == f"{FILE}:{WRONG}"


@given(runs(first_step=1), st.sampled_from([GRADIENTS, LOSS]))
def test_skipped_collective(run: Run, line: int) -> None:
    programs = run.programs()
    del programs[run.rank][run.place(line)]
    verdict = diagnose(run.job(programs))
    assert verdict.ranks == {run.rank}
    assert line_of(verdict) == f"{FILE}:{line}"


@given(runs(first_step=1))
def test_extra_collective(run: Run) -> None:
    programs, at = run.programs(), run.place(GRADIENTS)
    programs[run.rank].insert(at, replace(programs[run.rank][at], line=WRONG))
    verdict = diagnose(run.job(programs))
    assert verdict.ranks == {run.rank}
    assert line_of(verdict) == f"{FILE}:{WRONG}"


@given(runs())
def test_one_step_more(run: Run) -> None:
    programs = run.programs()
    programs[run.rank].append(Made("0", WRONG, shape=(64,)))
    verdict = diagnose(run.job(programs))
    assert (verdict.rule, verdict.ranks) == ("ahead", {run.rank})
    assert line_of(verdict) == f"{FILE}:{WRONG}"


@given(runs())
def test_reversed_order_of_groups(run: Run) -> None:
    programs, at = run.programs(), run.place(GRADIENTS)
    own = programs[run.rank]
    own[at], own[at + 1] = replace(own[at + 1], line=5), own[at]
    verdict = diagnose(run.job(programs))
    assert (verdict.rule, verdict.ranks) == ("order", {run.rank})
    assert line_of(verdict) == f"{FILE}:5"


@given(runs(), st.sampled_from(["missing", "empty file", "no records"]))
def test_rank_without_records_is_named_if_others_wait(run: Run, dump: str) -> None:
    verdict = diagnose(run.job(stop(run, GRADIENTS), **{f"rank_{run.rank}": dump}))
    assert (verdict.rule, verdict.ranks) == ("no dump", {run.rank})
    assert line_of(verdict) == f"{FILE}:{GRADIENTS}"


@given(runs(first_step=1), st.data())
@settings(max_examples=200)
def test_lost_dump_never_accuses_another_rank(run: Run, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, run.world - 1))
    at = run.place(GRADIENTS)
    faults = {
        "stop": stop(run, GRADIENTS),
        "skip": run.programs(),
        "type": run.programs(),
    }
    del faults["skip"][run.rank][at]
    own = faults["type"][run.rank]
    own[at] = replace(own[at], dtype="Double")
    programs = faults[data.draw(st.sampled_from(sorted(faults)))]
    verdict = diagnose(run.job(programs, **{f"rank_{lost}": "missing"}))
    assert verdict.ranks <= {run.rank}


@given(runs())
def test_shapes_of_all_to_all_can_differ(run: Run) -> None:
    # The signature has no shapes there: see the tests of flight_call.
    programs = run.programs()
    verdict = diagnose(run.job(programs))
    assert not verdict.ranks


def test_rank_that_does_not_finish_what_others_finished() -> None:
    run = Run(world=4, rank=2, step=0, steps=3)
    entries = played(run.programs(), run.groups)
    for entry in entries[2][-3:]:
        entry["retired"] = False
    waiting = [{**entries[0][-1], "collective_seq_id": 10, "record_id": 99, "retired": False}]
    for rank in (0, 1, 3):
        entries[rank] = entries[rank] + waiting
    verdict = diagnose(job_of(entries, run.groups))
    assert (verdict.rule, verdict.ranks) == ("behind", {2})
    assert verdict.waiting == (0, 1, 3)


def test_gap_of_one_is_a_race() -> None:
    run = Run(world=4, rank=2, step=0, steps=3)
    entries = played(run.programs(), run.groups)
    entries[2][-1]["retired"] = False
    assert not diagnose(job_of(entries, run.groups)).ranks


def test_as_many_ranks_on_both_sides_name_none() -> None:
    groups = {"0": [0, 1]}
    programs = {0: [Made("0", 1, shape=(3,))], 1: [Made("0", 2, shape=(4,))]}
    verdict = diagnose(job_of(played(programs, groups), groups))
    assert (verdict.rule, verdict.ranks) == ("mismatch", frozenset())
    assert "as many ranks make each" in verdict.evidence


def test_earlier_steps_decide_between_two_ranks() -> None:
    groups = {"0": [0, 1]}
    usual = [Made("0", 1, shape=(3,))] * 3
    programs = {0: usual, 1: [*usual[:2], Made("0", 1, shape=(4,))]}
    verdict = diagnose(job_of(played(programs, groups), groups))
    assert verdict.ranks == {1}


def test_two_ranks_that_wait_for_each_other_without_history_name_none() -> None:
    groups = {"0": [0, 1], "1": [0, 1]}
    programs = {0: [Made("0", 1), Made("1", 2)], 1: [Made("1", 1), Made("0", 2)]}
    verdict = diagnose(job_of(played(programs, groups), groups))
    assert (verdict.rule, verdict.ranks) == ("order", frozenset())


@pytest.mark.parametrize(("waited_s", "rule"), [(0.1, "healthy"), (60, "never called")])
def test_short_wait_is_that_of_running_job(waited_s: float, rule: str) -> None:
    run = Run(world=3, rank=1, step=2, steps=3)
    job = run.job(stop(run, GRADIENTS))
    last = max(call.created_ns or 0 for call in job.calls)
    ranks = {
        rank: replace(known, written_ns=last + int(waited_s * 1e9))
        for rank, known in job.ranks.items()
    }
    assert diagnose(replace(job, ranks=ranks)).rule == rule


def test_rank_with_unrecorded_operations_is_not_accused() -> None:
    run = Run(world=3, rank=1, step=2, steps=3)
    job = run.job(stop(run, GRADIENTS))
    ranks = {**job.ranks, 1: replace(job.ranks[1], unrecorded=4)}
    verdict = diagnose(replace(job, ranks=ranks))
    assert (verdict.rule, verdict.ranks) == ("unknown", frozenset())
    assert "send or receive" in verdict.evidence


def test_rank_that_alone_does_not_finish_while_others_wait_in_next_call() -> None:
    groups = {"0": [0, 1, 2]}
    entries = played({rank: [Made("0", 1, "broadcast"), Made("0", 2)] for rank in range(3)}, groups)
    for rank in (0, 2):
        entries[rank][1]["retired"] = False
    entries[1] = [{**entries[1][0], "retired": False}]
    verdict = diagnose(job_of(entries, groups))
    assert (verdict.rule, verdict.ranks, verdict.waiting) == ("unfinished", {1}, (0, 2))


def test_collective_that_does_not_end_is_that_of_unusual_line() -> None:
    groups = {"0": [0, 1, 2]}
    programs = {rank: [Made("0", 1, "broadcast"), Made("0", 2)] * 3 for rank in range(3)}
    programs[1][4] = Made("0", WRONG, "broadcast")
    entries = played(programs, groups)
    for rank in range(3):
        entries[rank] = [*entries[rank][:4], {**entries[rank][4], "retired": False}]
    verdict = diagnose(job_of(entries, groups))
    assert (verdict.rule, verdict.ranks) == ("unfinished", {1})
    assert line_of(verdict) == f"{FILE}:{WRONG}"
