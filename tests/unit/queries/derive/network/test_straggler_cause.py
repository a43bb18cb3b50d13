"""Why a rank is late, in made jobs of three ranks: 20 ms a step, for a reason that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from made_kineto import Event, document, event, kernel, launch, operator, write
from made_trace import MadeTrace, metric, relation

MS = 1_000_000
PERIOD = 100  # ms
STEPS = 6
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
LATE = 2  # the rank
RANKS = 3


@dataclass(frozen=True)
class Step:
    """A step of a rank on a GPU, in ms: input, pause of the host, a copy and equal kernels."""

    input: int = 1
    pause: int = 1
    copy: int = 2
    kernels: int = 10
    kernel: int = 4
    grid: int | None = 8

    @property
    def ready(self) -> int:
        """Time from the start of the step at which its all-reduce begins."""
        return self.input + self.pause + self.copy + self.kernels * self.kernel


USUAL = Step()
Kind = Callable[[int, int], Step]  # of rank and step


def only_late(step: Step) -> Kind:
    return lambda rank, _: step if rank == LATE else USUAL


def job(kind: Kind) -> MadeTrace:
    """A job whose all-reduces end 5 ms after the last rank begins them."""
    made = MadeTrace()
    for rank in range(RANKS):
        own = {"trace_id": f"t{rank}"}
        made.add_trace(f"t{rank}", name=f"run/rank{rank}.json", utc_start_ns=10**18)
        made.add("job_rank", **own, job="run", rank=rank, world_size=RANKS, host="a")
        for number in range(STEPS):
            end = max(kind(each, number).ready for each in range(RANKS)) + 5
            add_step(made, own, number, kind(rank, number), end)
    return made


def add_step(made: MadeTrace, own: dict[str, Any], number: int, step: Step, end: int) -> None:
    at = PERIOD * number * MS
    made.add_range(at, at + (PERIOD - 1) * MS, f"iteration {number}", **own)
    made.add_range(at, at + step.input * MS, LOADER, **own)
    host = at + (step.input + step.pause) * MS - 1000  # the GPU begins 1 us after the call
    now = host + 1000
    correlation = made.next_id()
    made.add_call(host, host + 1, "cudaMemcpyAsync", correlation_id=correlation, **own)
    made.add_memcpy(now, now + step.copy * MS, bytes=50_000, correlation_id=correlation, **own)
    now += step.copy * MS
    for place in range(step.kernels):
        made.launch(
            host + 10 * (place + 1), now, now + step.kernel * MS, f"k{place % 10}",
            grid_x=step.grid, grid_y=1, grid_z=1, block_x=64, block_y=1, block_z=1, **own,
        )  # fmt: skip
        now += step.kernel * MS
    made.launch(host + 900, now, at + end * MS, "ncclAllReduce", stream_id=9, **own)


CASES = {
    "slower": (
        Step(kernel=6), "compute", "slower at equal work", 1.5,
        "whose kernels take 1.50 times as long at equal work: 20 ms a step",
    ),
    "copies": (
        Step(copy=22), "compute", "slower at equal work", 11.0,
        "whose copies take 11.00 times as long at equal work: 20 ms a step",
    ),
    "more": (
        Step(kernels=15), "compute", "more work", 1.0,
        "which has more work (16 instead of 11 GPU operations a step): 20 ms a step",
    ),
    "larger": (
        Step(kernel=6, grid=12), "compute", "more work", None,
        "which has more work (kernels of other sizes): 20 ms a step",
    ),
    "input": (
        Step(input=21), "input", "waits for input", 1.0,
        "which waits longer for input: 20 ms a step",
    ),
    "host": (
        Step(pause=21), "host", "host", 1.0,
        "whose GPU waits longer for the host: 20 ms a step",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_cause_is_the_one_made(case: str) -> None:
    step, phase, cause, ratio, sentence = CASES[case]
    (row,) = relation(job(only_late(step)), "straggler_cause")
    assert (row["rank"], row["steps"], row["peers"], row["is_gpu"]) == (LATE, STEPS, 2, True)
    assert (row["phase"], row["cause"], row["reason"]) == (phase, cause, None)
    assert row["lost_ns"] == pytest.approx(20 * MS)
    assert row["extra_ns"] == pytest.approx(20 * MS, rel=1e-3)
    if case in ("slower", "copies", "larger"):
        assert row["equal_work_ratio"] == (ratio and pytest.approx(ratio))
    assert row["sentence"] == sentence


@pytest.mark.slow
def test_without_a_straggler_there_is_no_cause() -> None:
    assert relation(job(lambda *_: USUAL), "straggler_cause") == []


@pytest.mark.slow
def test_ranks_that_are_late_in_turns_have_no_cause() -> None:
    made = job(lambda rank, step: Step(kernel=6) if rank == step % RANKS else USUAL)
    rows = relation(made, "straggler_cause")
    assert [row["rank"] for row in rows] == [0, 1, 2]
    assert {(row["cause"], row["sentence"], row["peers"]) for row in rows} == {(None, None, 0)}
    assert {row["reason"] for row in rows} == {"ranks are late in turns"}


@pytest.mark.slow
def test_a_small_loss_has_no_cause() -> None:
    (row,) = relation(job(only_late(Step(pause=2))), "straggler_cause")
    assert (row["phase"], row["cause"]) == (None, None)
    assert row["reason"] == "the others wait 1 % of a step for it, below 2 %"


@pytest.mark.slow
def test_work_of_unknown_size_does_not_tell_slower_from_more() -> None:
    def kind(rank: int, _: int) -> Step:
        return Step(kernel=6 if rank == LATE else 4, grid=None, copy=0)

    made = job(kind)
    made.rows["memcpy"].clear()
    (row,) = relation(made, "straggler_cause")
    assert (row["phase"], row["cause"], row["extra_ns"]) == ("compute", None, None)
    assert row["reason"] == "sizes are not recorded, so that its work may be more or slower"


@pytest.mark.slow
def test_a_job_without_common_steps_says_so() -> None:
    made = job(only_late(Step(kernel=6)))
    for row in made.rows["annotation"]:
        if row["trace_id"] == "t0":
            row["text"] = "other"
    rows = relation(made, "straggler_cause")
    assert {row["reason"] for row in rows} == {"no step is in the analysis window of every rank"}


def test_the_query_shows_the_cause_of_the_straggler() -> None:
    rows = metric(job(only_late(Step(kernel=6))), "straggler")
    (late,) = [row for row in rows if row["is_straggler"]]
    assert (late["rank"], late["phase"], late["cause"]) == (
        LATE, "compute", "slower at equal work",
    )  # fmt: skip
    assert (late["lost_ns"], late["extra_ns"]) == (pytest.approx(20 * MS), 20 * MS)
    assert {row["cause"] for row in rows if row is not late} == {None}


def cpu_step(number: int, kind: str, *, is_late: bool) -> list[Event]:
    """A step of 100 ms on a CPU: the late rank begins its all-reduce 20 ms later, for a reason."""
    at = PERIOD * 1000 * number
    late = kind if is_late else ""
    load, pause = (25 if late == "input" else 5), (21 if late == "host" else 1)
    took = 40 if late in ("slow", "larger") else 20
    calls = 2 if late == "more" else 1
    sizes = [[16 if late == "larger" else 8, 4]]
    events = [
        event("user_annotation", f"ProfilerStep#{number}", at, 99_000),
        event("user_annotation", LOADER, at, 1000 * load),
    ]
    now = at + 1000 * (load + pause)
    for _ in range(calls):
        events.append(operator("aten::relu", now, 1000 * took, **{"Input Dims": sizes}))
        now += 1000 * took
    begin, end = now, at + 1000 * (46 if kind == "none" else 60)
    args: dict[str, Any] = {"Input Dims": [[1000]], "Input type": ["float"]}
    gloo = event("user_annotation", "gloo:all_reduce", begin, end - begin, tid=500, args=args)
    return [*events, gloo, operator("aten::add_", end + 1000, 5000, **{"Input Dims": [[4]]})]


def cpu_job(folder: Path, kind: str) -> Path:
    folder.mkdir()
    for rank in range(RANKS):
        info = {"backend": "gloo", "rank": rank, "world_size": RANKS}
        header = {"distributedInfo": info, "host_name": "a", "baseTimeNanoseconds": 10**18}
        events = [
            each for number in range(STEPS) for each in cpu_step(number, kind, is_late=rank == LATE)
        ]
        write(folder / f"rank{rank}.json", document(events, **header))
    return folder


CPU_CASES = {
    "slow": "whose operators take 1.80 times as long at equal work: 20 ms a step",
    "more": "which has more work (3 instead of 2 operators a step): 20 ms a step",
    "larger": "which has more work (operators of other sizes): 20 ms a step",
    "input": "which waits longer for input: 20 ms a step",
    "host": "which spends more time outside operators: 20 ms a step",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CPU_CASES)
def test_why_names_the_cause_of_a_rank_on_the_cpu(kind: str, tmp_path: Path) -> None:
    with tbd_trace.open(cpu_job(tmp_path / "job", kind)) as traces:
        found = {one.trace: one for one in traces.why().diagnoses}
    (cause,) = [cause for cause in found["job/rank0.json"].causes if cause.cause == "straggler"]
    assert cause.ns_per_step == pytest.approx(20 * MS)
    assert cause.evidence == (
        f"{STEPS} collectives wait for another rank to begin, {STEPS} of them for rank {LATE}, "
        f"{CPU_CASES[kind]}"
    )
    assert all(cause.cause != "straggler" for cause in found["job/rank2.json"].causes)


@pytest.mark.slow
def test_why_blames_no_rank_of_equal_ones_on_the_cpu(tmp_path: Path) -> None:
    with tbd_trace.open(cpu_job(tmp_path / "job", "none")) as traces:
        for one in traces.why().diagnoses:
            assert all(cause.cause != "straggler" for cause in one.causes)


def gpu_step(number: int, *, is_late: bool) -> list[Event]:
    """A step of 10 ms on a GPU: the late rank loads 6 ms longer, and the others wait in NCCL."""
    at, load = 10_000 * number, 6200 if is_late else 200
    events = [
        event("user_annotation", f"ProfilerStep#{number}", at, 10_000),
        event("user_annotation", LOADER, at + 5, load),
    ]
    host, end = at + load + 50, at + 9500
    begins = [host + 100, host + 1100, host + 2100]
    for place, begin in enumerate(begins):
        correlation = 10 * number + place + 1
        events += [launch(host + 20 * place, correlation), kernel(begin, 1000, correlation)]
    arrival, correlation = host + 3100, 10 * number + 9
    collective = {
        "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
        "dtype": "Float", "Group size": RANKS, "Process Group Name": "0",
        "Process Group Ranks": str(list(range(RANKS))), "Seq": number, "stream": 20,
    }  # fmt: skip
    reduced = kernel(arrival, end - arrival, correlation, "ncclDevKernel_AllReduce", **collective)
    return [*events, launch(host + 100, correlation), reduced | {"tid": 20}]


def test_why_names_a_late_rank_of_a_job_on_gpus(tmp_path: Path) -> None:
    for rank in range(RANKS):
        info = {"backend": "nccl", "rank": rank, "world_size": RANKS}
        header = {"distributedInfo": info, "baseTimeNanoseconds": 10**18}
        events = [
            each for number in range(STEPS) for each in gpu_step(number, is_late=rank == LATE)
        ]
        write(tmp_path / f"rank{rank}.json", document(events, **header))
    with tbd_trace.open(tmp_path) as traces:
        found = {one.trace.rpartition("/")[2]: one for one in traces.why().diagnoses}
    (cause,) = [cause for cause in found["rank0.json"].causes if cause.cause == "straggler"]
    assert f"{STEPS} of them for rank {LATE}, which waits longer for input" in cause.evidence
    assert all(cause.cause != "straggler" for cause in found["rank2.json"].causes)
