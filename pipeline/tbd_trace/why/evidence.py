"""Evidence for causes, and what a trace does not show."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tbd_trace.sources.recording_actions import action
from tbd_trace.why.copies import offloaded_copies
from tbd_trace.why.overlap import elapsed_in, is_communication, is_compute
from tbd_trace.why.program import Program
from tbd_trace.why.shares import LONG_CALL_NS

# Errors of the strict replay above which all is uncertain, and above which no gain is predicted.
_LARGEST_ERROR_PCT, _LARGEST_ERROR_OF_GAINS_PCT = 5.0, 20.0
_WAITING_STEPS = 0.3
_NOTEWORTHY = 0.05
_FIXED = {
    "checkpoint": "copies to the host in few of the steps, far larger than in the others",
    "compilation": "the launching thread is in ranges of a compiler",
    "host": "the GPU waits for the launching thread",
    "warm_up": "launches of more than 1 ms load modules or compile",
    "launch_latency": "the GPU is idle after a launch began",
}


def waiting_steps(program: Program) -> int:
    """Return the number of steps in which the GPU may wait for input."""
    ends = sorted(program.calls.start[call] for call in program.input_waits)
    return sum(
        bisect_right(ends, start) < bisect_right(ends, end) for start, end in program.base.periods
    )


def is_certain(program: Program, cause: str, error: float | None) -> bool:
    """Return True if the evidence for a cause is strong."""
    if error is None or abs(error) > _LARGEST_ERROR_PCT or cause == "unknown":
        return False
    if cause == "input_pipeline":
        is_marked = any(
            wait.evidence != "copy of the batch" for wait in program.input_waits.values()
        )
        return is_marked or waiting_steps(program) >= _WAITING_STEPS * len(program.base.periods)
    return True


def explains(error: float) -> bool:
    """Return True if the error of a strict replay, in percent, leaves gains worth stating."""
    return abs(error) <= _LARGEST_ERROR_OF_GAINS_PCT


def error_sentence(error: float) -> str:
    """Say why gains are withheld."""
    return (
        f"gains: the replay of the trace errs by {error:+.0f} %, more than "
        f"{_LARGEST_ERROR_OF_GAINS_PCT:.0f} %"
    )


def numbered(number: float, noun: str) -> str:
    """Return a number with a noun, in the plural where the number is not 1."""
    return f"{number:.2g} {noun}s" if number < 1 else f"{number} {noun}{'' if number == 1 else 's'}"


def evidence(program: Program, stalls: Mapping[int, int], cause: str) -> str:
    """Describe in a few words how a cause is known."""
    match cause:
        case "host_stalls":
            return _stalls(program, stalls)
        case "synchronization" | "memory_allocation":
            return f"the GPU is idle inside {_call_names(program, cause)}"
    if (describe := _DESCRIBED.get(cause)) is not None:
        return describe(program)
    return _FIXED.get(cause) or _kernels(program, cause)


def _stalls(program: Program, stalls: Mapping[int, int]) -> str:
    calls = program.calls
    pauses = [calls.think[call] for call in stalls]
    mean = sum(pauses) / max(len(pauses), 1) / 1e6
    usual = sum(stalls.values()) / max(len(stalls), 1) / 1e6
    return (
        f"{numbered(len(pauses), 'pause')} between calls, {mean:.3g} ms on average, usually "
        f"{usual:.2g} ms"
    )


def _input(program: Program) -> str:
    kinds = Counter(wait.evidence for wait in program.input_waits.values()).most_common(1)
    kind = kinds[0][0] if kinds else ""
    where = "before the copy of the batch" if kind == "copy of the batch" else f"in a {kind}"
    steps = len(program.base.periods)
    share = f", {waiting_steps(program)} of {steps} steps" if steps else ""
    return f"the launching thread waits {where}{share}"


def _straggler(program: Program) -> str:
    last = Counter(rank for _, rank in program.rank_waits.values())
    ((rank, times),) = last.most_common(1)
    return waiting(last.total(), times, rank, program.late_ranks.get(rank))


def waiting(collectives: int, times: int, rank: int, why: str | None) -> str:
    """Say how many collectives wait, how often for the most frequent rank, and why it is late."""
    waits = "waits" if collectives == 1 else "wait"
    return (
        f"{numbered(collectives, 'collective')} {waits} for another rank to begin, {times} of "
        f"them for rank {rank}" + (f", {why}" if why else "")
    )


def _unknown(program: Program) -> str:
    if reason := program.skewed.get(program.device_id):
        return reason
    if delays := _delays(program):
        sentence = f"operations that begin over 1 ms later than the trace explains: {len(delays)}"
        return sentence + _blocked(program, delays)
    return "no launching call recorded"


def _blocked(program: Program, delays: Sequence[tuple[int, int]]) -> str:
    # The call in which the host is for most of the delays of operations.
    calls = program.calls
    start, end = np.asarray(calls.start), np.asarray(calls.end)
    long = np.flatnonzero(end - start > LONG_CALL_NS)
    begun, ended = np.array(delays).T
    ns_by_call: Counter[str] = Counter()
    for name in {calls.name[call] for call in long}:
        own = [call for call in long if calls.name[call] == name]
        elapsed = elapsed_in(start[own], end[own])
        ns_by_call[name] = int((elapsed(ended) - elapsed(begun)).sum())
    if not ns_by_call:
        return ""
    ((name, ns),) = ns_by_call.most_common(1)
    return f", while the host is in {name}" if 2 * ns > (ended - begun).sum() else ""


def _delays(program: Program) -> list[tuple[int, int]]:
    # Start and end of the time before an operation that nothing explains.
    start = program.ops.start
    late = ((op, program.delay_ns(op)) for op in range(len(start)))
    return [(start[op] - ns, start[op]) for op, ns in late if ns > 0]


def _call_names(program: Program, cause: str) -> str:
    kind = "sync" if cause == "synchronization" else "alloc"
    calls = program.calls
    names = Counter(name for name, k in zip(calls.name, calls.kind, strict=True) if k == kind)
    return ", ".join(name for name, _ in names.most_common(2))


def _communication(program: Program) -> str:
    sentence = "communication kernels run alone"
    ops = program.ops
    own = [op for op in program.measured_ops if is_communication(ops.cause[op])]
    # The previous operation of the stream computes.
    among = sum((before := ops.previous[op]) >= 0 and is_compute(ops.cause[before]) for op in own)
    if 2 * among <= len(own):
        return sentence
    return f"{sentence}, in the stream of compute kernels, beside which they cannot run"


def _copies(program: Program) -> str:
    ops = program.ops
    copies = [op for op in program.measured_ops if ops.kind[op] == "memcpy"]
    size = sum(ops.bytes[op] for op in copies)
    ns = sum(ops.end[op] - ops.start[op] for op in copies)
    if not size or not ns:
        return "copies and fills run alone"
    pageable = sum(ops.bytes[op] for op in copies if ops.is_pageable[op])
    memory = f"{100 * pageable / size:.0f} % pageable" if pageable > 0.005 * size else "pinned"
    each = f"{size / len(program.steps) / 1e6:.4g} MB per step" if program.steps else ""
    if number := offloaded_copies(program):
        each = f"{number} large copies, {each or f'{size / 1e9:.4g} GB'}"
    return ", ".join(filter(None, (each, f"{size / ns:.3g} GB/s", memory)))


_DESCRIBED = {
    "communication": _communication,
    "input_pipeline": _input,
    "copies": _copies,
    "straggler": _straggler,
    "unknown": _unknown,
}


def _kernels(program: Program, cause: str) -> str:
    ops = program.ops
    ns_by_precision: Counter[str] = Counter()
    number = 0
    for op in program.measured_ops:
        if ops.cause[op] == cause:
            number += 1
            ns_by_precision[ops.precision[op]] += ops.end[op] - ops.start[op]
    total = ns_by_precision.total()
    shares = [
        f"{100 * ns / total:.0f} % {precision}"
        for precision, ns in ns_by_precision.most_common()
        if precision
    ]
    each = ""
    if program.steps:
        mean = number / len(program.steps)
        each = f"{numbered(mean if mean < 1 else round(mean), 'kernel')} per step"
    return ", ".join(filter(None, (each or numbered(number, "kernel"), *shares)))


def not_known(program: Program, input_share: float, error: float | None) -> list[str]:
    """Return sentences about data that the trace lacks, with the action to take.

    Args:
        input_share: part of the time that waits for input.
        error: that of the strict replay, in percent.
    """
    sentences = []
    tool = program.tool
    if not program.steps:
        sentences.append(f"gains: no complete step found; {action(tool, 'steps')}")
    if error is not None and program.knows_launches and not explains(error):
        sentences.append(error_sentence(error))
    if late := len(_delays(program)):
        sentences.append(f"what delays operations ({late}): {action(tool, 'delays')}")
    if not program.knows_launches:
        sentences.append(
            "host causes: launches of more than 20 % of the operations are not recorded; "
            + action(tool, "launches")
        )
    elif early := _early(program):
        sentences.append(
            f"host causes: {early} operations start before their launch, so the clocks of GPU and "
            f"host disagree; {action(tool, 'clocks')}"
        )
    elif reason := program.skewed.get(program.device_id):
        sentences.append(f"host causes: {reason}; {action(tool, 'clocks')}")
    if any(kind == "graph" for kind in program.ops.kind):
        sentences.append(f"kernels inside graphs: {action(tool, 'graphs')}")
    if not program.trains:
        sentences.append(
            "whether the program trains: it has no range or kernel of a backward pass; "
            f"{action(tool, 'phases')}, or use --set assume_training=true for advice about training"
        )
    if program.ranks and program.ranks[0] < program.ranks[1] and _communicates(program):
        read, there = program.ranks
        sentences.append(
            f"how much of the communication waits for slower ranks: {read} of {there} ranks were "
            "read; read all with `tbd-trace ingest --job NAME DIRECTORY`"
        )
    waits = program.input_waits.values()
    if input_share >= _NOTEWORTHY and all(wait.evidence == "copy of the batch" for wait in waits):
        sentences.append(f"which code waits for input: {action(tool, 'input')}")
    return sentences


def _communicates(program: Program) -> bool:
    return any(is_communication(program.ops.cause[op]) for op in program.measured_ops)


def _early(program: Program) -> int:
    # 0 if they are few; 50 µs is the tolerance of the relation clock_check.
    calls, ops = program.calls, program.ops
    early = sum(
        call >= 0 and start < calls.start[call] - 50_000
        for start, call in zip(ops.start, ops.call, strict=True)
    )
    return early if early > 0.01 * len(ops.start) else 0
