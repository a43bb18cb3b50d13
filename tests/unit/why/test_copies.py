"""Copies that are no batches, and what the first advice makes of them."""

from __future__ import annotations

import pytest

from made_loop import programs_of
from made_trace import MadeTrace
from tbd_trace.query import prepare
from tbd_trace.why.changes import parse_change
from tbd_trace.why.copies import CHECKPOINT, checkpoint_copies, offloaded_copies
from tbd_trace.why.diagnosis import Diagnosis
from tbd_trace.why.processes import INPUTS, diagnoses
from tbd_trace.why.program import Program
from tbd_trace.why.ranking import Cause
from tbd_trace.why.whatif import Simulator

pytestmark = pytest.mark.slow
MS = 1_000_000  # ns
MB = 1_000_000  # bytes
STEPS = 12
STEP_NS = 20 * MS


def loop(to_host: dict[int, int] | None = None, to_gpu: int = 1, pause_ns: int = 0) -> MadeTrace:
    """Return steps of a kernel of 10 ms, and copies of 4 MB that take 1 ms each.

    Args:
        to_host: copies to the host by step, each after the kernel.
        to_gpu: copies to the GPU in each step, before the kernel.
        pause_ns: pause of the host after copies to the host.
    """
    made, now = MadeTrace(), 0
    made.add_trace()
    for step in range(STEPS):
        begin = now
        for direction, number in (
            ("HtoD", to_gpu),
            ("kernel", 1),
            ("DtoH", (to_host or {}).get(step, 0)),
        ):
            for _ in range(number):
                now += 20_000
                if direction == "kernel":
                    made.launch(now, now + 10_000, now + 10 * MS)
                    now += 10 * MS
                else:
                    both = {"correlation_id": made.next_id()}
                    copied = both | {"direction": direction, "bytes": 4 * MB}
                    made.add_call(now, now + MS, "cudaMemcpyAsync", **both)
                    made.add_memcpy(now + 10_000, now + MS, src_kind="pageable", **copied)
                    now += MS
        made.add_call(now, now + 100_000, "cudaDeviceSynchronize")
        now += 100_000 + (pause_ns if (to_host or {}).get(step) else 0)
        made.add_range(begin, now, f"step {step}")
    return made


def program(made: MadeTrace) -> Program:
    (found,) = programs_of(made)
    return found


def diagnosis_of(made: MadeTrace) -> Diagnosis:
    with made.connect() as database:
        prepare(database.connection, INPUTS)
        (found,) = diagnoses(database.connection)
        return found


def cause(found: Diagnosis, name: str) -> Cause:
    (one,) = (each for each in found.causes if each.cause == name)
    return one


def test_copies_of_a_checkpoint_are_apart_from_others() -> None:
    found = diagnosis_of(loop({3: 30, 7: 30}, pause_ns=5 * MS))
    saved = cause(found, CHECKPOINT)
    assert saved.ns_per_step == pytest.approx(2 * 30 * MS / found.steps, rel=0.02)
    assert cause(found, "copies").ns_per_step == pytest.approx(MS, rel=0.02)
    assert saved.remedy == "host_stalls"
    assert found.change == CHECKPOINT
    assert (found.busy_pct or 0) > 90  # the GPU copies meanwhile


def test_without_checkpoints_the_steps_are_all_alike() -> None:
    found = Simulator(program(loop({3: 30, 7: 30})))
    then = found.predict([parse_change("host_stalls")]).ceiling_ns
    assert then == pytest.approx(Simulator(program(loop())).measured_ns, rel=0.03)


@pytest.mark.parametrize(
    "to_host",
    [
        {},
        dict.fromkeys(range(STEPS), 5),  # each step copies as much
        dict.fromkeys(range(0, STEPS, 1), 1) | {3: 8},  # not far more than the others
        dict.fromkeys(range(8), 30),  # most steps
    ],
)
def test_other_copies_to_the_host_are_no_checkpoints(to_host: dict[int, int]) -> None:
    assert checkpoint_copies(program(loop(to_host))) == []


def test_many_large_copies_to_the_gpu_are_no_batch() -> None:
    few, many = program(loop(to_gpu=2)), program(loop(to_gpu=20))
    assert offloaded_copies(few) == 0
    assert offloaded_copies(many) == pytest.approx(20, abs=1)
    advice = cause(diagnosis_of(loop(to_gpu=20)), "copies")
    assert advice.advice is not None
    assert advice.advice.startswith("weights or optimizer state are copied")
    assert "large copies, " in advice.evidence
