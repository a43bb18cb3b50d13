"""Effects of changes of the communication between GPUs."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tbd_trace.why.changes import Change, factors
from tbd_trace.why.events import integers
from tbd_trace.why.overlap import is_communication
from tbd_trace.why.replay import Durations

if TYPE_CHECKING:
    from tbd_trace.why.whatif import Simulator


def comm(sim: Simulator, change: Change, case: str, durations: Durations) -> Durations:
    """Return durations with other rates of communication; waits for other ranks remain."""
    causes, waits = sim.program.ops.cause, rank_wait_ns(sim)
    op_ns = array(
        "q",
        (
            wait + round((ns - wait) * change.factor)
            if is_communication(causes[op]) and (wait := min(waits.get(op, 0), ns)) < ns
            else ns
            for op, ns in enumerate(durations.op)
        ),
    )
    faster = durations if op_ns == durations.op else replace(durations, op=op_ns)
    return _with_shorter_overlap(sim, change.factor, faster)


def overlap_comm(sim: Simulator, change: Change, case: str, durations: Durations) -> Durations:
    """Return durations in which all but the last collective run beside the backward pass."""
    found = sim.communication
    if found is None or found.hidden_ns >= found.total_ns:
        return durations
    # Kernels of the backward pass take longer beside communication.
    slowdown = factors("overlap_comm", case, "slowdown")["compute"]
    room = factors("overlap_comm", "likely", "part")["backward"] * found.compute_ns * slowdown
    hidden = min(found.total_ns * (1 - 1 / max(found.kernels, 1)), room)
    left = found.total_ns - hidden / slowdown
    factor = min(left / (found.total_ns - found.hidden_ns), 1.0)
    return comm(sim, replace(change, factor=factor), case, durations)


def bucket(sim: Simulator, _change: Change, case: str, durations: Durations) -> Durations:
    """Return durations with fewer collectives of the same bytes in all."""
    found = sim.communication
    if found is None:
        return durations
    latency = factors("bucket", case, "latency")["collective"] * found.median_ns
    fewer = 1 - factors("bucket", "likely", "launches")["collective"]
    causes, waits = sim.program.ops.cause, rank_wait_ns(sim)
    return replace(
        durations,
        op=array(
            "q",
            (
                max(ns - round(latency * fewer), min(ns, waits.get(op, 0)))
                if is_communication(causes[op])
                else ns
                for op, ns in enumerate(durations.op)
            ),
        ),
    )


def _with_shorter_overlap(sim: Simulator, factor: float, durations: Durations) -> Durations:
    # Kernels beside communication take longer; less communication shortens them.
    cost = sim.program.overlap_cost
    if cost is None or factor >= 1:
        return durations
    under = sim.under_communication_ns * (1 - factor) * (1 - 1 / cost.slowdown)
    measured = np.asarray(sim.program.ops.end) - np.asarray(sim.program.ops.start)
    part = 1 - under / np.maximum(measured, 1)
    return replace(durations, op=integers(np.rint(np.asarray(durations.op) * part)))


def straggler(sim: Simulator, _change: Change, case: str, durations: Durations) -> Durations:
    """Return durations without waits for other ranks."""
    waits = rank_wait_ns(sim)
    if case == "worst" or not waits:
        return durations
    op_ns = array("q", (max(ns - waits.get(op, 0), 0) for op, ns in enumerate(durations.op)))
    return replace(durations, op=op_ns)


def rank_wait_ns(sim: Simulator) -> dict[int, int]:
    """Return the time in which a collective waits for other ranks, by operation."""
    return {op: wait_ns for op, (wait_ns, _) in sim.program.rank_waits.items()}


def compress(sim: Simulator, change: Change, case: str, durations: Durations) -> Durations:
    """Return durations with gradients of half the bytes."""
    factor = factors("compress", case, "duration")["communication"]
    return comm(sim, replace(change, factor=factor), case, durations)
