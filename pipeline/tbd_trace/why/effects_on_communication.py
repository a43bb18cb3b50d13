"""Effects of changes of the communication between GPUs."""

from __future__ import annotations

from array import array
from dataclasses import replace
from statistics import median

import numpy as np

from tbd_trace.why.changes import Change, factors
from tbd_trace.why.events import integers
from tbd_trace.why.overlap import is_communication
from tbd_trace.why.program_facts import ProgramFacts
from tbd_trace.why.replay import Durations


def comm(
    facts: ProgramFacts, change: Change, case: str, durations: Durations, *, is_full: bool = False
) -> Durations:
    """Return durations with other rates of communication; waits for other ranks remain.

    Args:
        is_full: only collectives whose values are not known to have 2 bytes or fewer.
    """
    causes, waits = facts.program.ops.cause, rank_wait_ns(facts)
    precisions = facts.program.ops.precision
    op_ns = array(
        "q",
        (
            wait + round((ns - wait) * change.factor)
            if is_communication(causes[op])
            and not (is_full and precisions[op] == "half")
            and (wait := min(waits.get(op, 0), ns)) < ns
            else ns
            for op, ns in enumerate(durations.op)
        ),
    )
    if op_ns == durations.op:
        return durations
    faster = replace(durations, op=op_ns)
    return _with_shorter_overlap(facts, change.factor, faster)


def overlap_comm(facts: ProgramFacts, change: Change, case: str, durations: Durations) -> Durations:
    """Return durations in which all but the last collective run beside the backward pass."""
    communication = facts.communication
    if communication is None or communication.hidden_ns >= communication.total_ns:
        return durations
    # Kernels of the backward pass take longer beside communication.
    slowdown = factors("overlap_comm", case, "slowdown")["compute"]
    room = (
        factors("overlap_comm", "likely", "part")["backward"] * communication.compute_ns * slowdown
    )
    hidden = min(communication.total_ns * (1 - 1 / max(communication.kernels, 1)), room)
    left = communication.total_ns - hidden / slowdown
    factor = min(left / (communication.total_ns - communication.hidden_ns), 1.0)
    return comm(facts, replace(change, factor=factor), case, durations)


def bucket(facts: ProgramFacts, _change: Change, case: str, durations: Durations) -> Durations:
    """Return durations with fewer collectives of the same bytes in all; large ones stay."""
    program, waits = facts.program, rank_wait_ns(facts)
    large = factors("bucket", "likely", "bytes")["collective"]
    small = {
        op
        for op in program.measured_ops
        if is_communication(program.ops.cause[op]) and program.ops.bytes[op] < large
    }
    per_step = len(small) / max(len(program.steps), 1)
    if per_step <= 1:
        return durations
    usual = median(program.ops.end[op] - program.ops.start[op] for op in small)
    latency = factors("bucket", case, "latency")["collective"] * usual
    # At least one collective remains in each step.
    left = max(factors("bucket", "likely", "launches")["collective"], 1 / per_step)
    op_ns = array(
        "q",
        (
            max(ns - round(latency * (1 - left)), min(ns, waits.get(op, 0))) if op in small else ns
            for op, ns in enumerate(durations.op)
        ),
    )
    return replace(durations, op=op_ns)


def _with_shorter_overlap(facts: ProgramFacts, factor: float, durations: Durations) -> Durations:
    # Kernels beside communication take longer; less communication shortens them.
    cost = facts.program.overlap_cost
    if cost is None or factor >= 1:
        return durations
    under = facts.under_communication_ns * (1 - factor) * (1 - 1 / cost.slowdown)
    measured = np.asarray(facts.program.ops.end) - np.asarray(facts.program.ops.start)
    part = 1 - under / np.maximum(measured, 1)
    return replace(durations, op=integers(np.rint(np.asarray(durations.op) * part)))


def straggler(facts: ProgramFacts, _change: Change, case: str, durations: Durations) -> Durations:
    """Return durations without waits for other ranks."""
    waits = rank_wait_ns(facts)
    if case == "worst" or not waits:
        return durations
    op_ns = array("q", (max(ns - waits.get(op, 0), 0) for op, ns in enumerate(durations.op)))
    return replace(durations, op=op_ns)


def rank_wait_ns(facts: ProgramFacts) -> dict[int, int]:
    """Return the time in which a collective waits for other ranks, by operation."""
    return {op: wait_ns for op, (wait_ns, _) in facts.program.rank_waits.items()}


def compress(facts: ProgramFacts, change: Change, case: str, durations: Durations) -> Durations:
    """Return durations with gradients of half the bytes, where they have 4 bytes a value."""
    factor = factors("compress", case, "duration")["communication"]
    return comm(facts, replace(change, factor=factor), case, durations, is_full=True)
