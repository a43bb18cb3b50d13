"""Effects of changes: which durations of a program they change, and by which factor."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import replace

from tbd_trace.why.changes import Change, factors
from tbd_trace.why.copies import CHECKPOINT
from tbd_trace.why.effects_on_communication import (
    bucket,
    comm,
    compress,
    overlap_comm,
    rank_wait_ns,
    straggler,
)
from tbd_trace.why.overlap import is_compute
from tbd_trace.why.program import Program
from tbd_trace.why.program_facts import ProgramFacts
from tbd_trace.why.replay import Durations

_SHORTEST_RUN = 8  # kernels of an update that is not fused
_LONGEST_BREAK = 12  # other kernels inside a run

Effect = Callable[[ProgramFacts, Change, str, Durations], Durations]


def _integers(values: Iterable[int]) -> array[int]:
    return array("q", values)


def _input(facts: ProgramFacts, change: Change, case: str, durations: Durations) -> Durations:
    # More workers shorten the wait if the loader follows, see _loader_ns.
    pause = int(factors("input", "best", "pause_ns")["input"])
    waits = facts.program.input_waits
    measured = facts.program.calls.think
    pauses = {call: measured[call] - max(wait.ns - pause, 0) for call, wait in waits.items()}
    return replace(_paused(durations, pauses), arrivals={})


def _host_stalls(
    facts: ProgramFacts, _change: Change, case: str, durations: Durations
) -> Durations:
    # The wait for input inside a pause stays.
    waits, think = facts.program.input_waits, facts.program.calls.think
    pauses = {
        call: usual + durations.think[call] - (think[call] - waits[call].ns)
        if call in waits
        else usual
        for call, usual in facts.stalls.items()
    }
    # Checkpoints are saved in a stall.
    causes = facts.program.ops.cause
    saved = _scaled(durations, lambda op: 0.0 if causes[op] == CHECKPOINT else 1.0)
    return _paused(saved, pauses)


def _paused(durations: Durations, pauses: dict[int, int]) -> Durations:
    if not pauses:
        return durations
    think = durations.think[:]
    for call, ns in pauses.items():
        think[call] = min(think[call], ns)
    return replace(durations, think=think)


def _graph(facts: ProgramFacts, change: Change, case: str, durations: Durations) -> Durations:
    call_ns = int(factors("graph", "best", "call_ns")["host"])
    pause_ns = int(factors("graph", "best", "pause_ns")["host"])
    waits = facts.program.input_waits
    return replace(
        durations,
        think=_integers(
            ns if call in waits else min(ns, pause_ns) for call, ns in enumerate(durations.think)
        ),
        call=_integers(min(ns, call_ns) for ns in durations.call),
        most_gap_ns=int(factors("graph", "best", "gap_ns")["nodes"]),
    )


def _no_sync(facts: ProgramFacts, _change: Change, case: str, durations: Durations) -> Durations:
    kinds = facts.program.calls.kind
    free = frozenset(call for call, kind in enumerate(kinds) if kind == "sync")
    return replace(durations, is_free=durations.is_free | free)


def _no_alloc(facts: ProgramFacts, _change: Change, case: str, durations: Durations) -> Durations:
    kinds = facts.program.calls.kind
    call = _integers(0 if k == "alloc" else ns for k, ns in zip(kinds, durations.call, strict=True))
    free = frozenset(call for call, kind in enumerate(kinds) if kind == "alloc")
    return replace(durations, call=call, is_free=durations.is_free | free)


def _scaled(durations: Durations, factor: Callable[[int], float]) -> Durations:
    # The same object if nothing changes, which saves a replay.
    op_ns = _integers(
        ns if (f := factor(op)) == 1 else round(ns * f) for op, ns in enumerate(durations.op)
    )
    return durations if op_ns == durations.op else replace(durations, op=op_ns)


def _copies(facts: ProgramFacts, _change: Change, case: str, durations: Durations) -> Durations:
    ops = facts.program.ops
    batches = {
        op for op, kind in enumerate(ops.kind) if kind == "memcpy" and ops.cause[op] != CHECKPOINT
    }
    return _scaled(durations, lambda op: 0.0 if op in batches else 1.0)


def _pinned(facts: ProgramFacts, _change: Change, case: str, durations: Durations) -> Durations:
    ops = facts.program.ops
    rate = factors("pinned", "likely", "bytes_per_ns")["pageable"]
    op_ns = _integers(
        min(ns, round(size / rate)) if pageable else ns
        for ns, size, pageable in zip(durations.op, ops.bytes, ops.is_pageable, strict=True)
    )
    return replace(durations, op=op_ns)


def _amp(facts: ProgramFacts, _change: Change, case: str, durations: Durations) -> Durations:
    ops = facts.program.ops
    # Where no matrix work is left to speed up, memory-bound kernels are in FP16 or BF16, too.
    if not any(precision in ("tf32", "fp32") for precision in set(ops.precision)):
        return durations
    by_kind = factors("amp", case, "duration")

    def factor(op: int) -> float:
        kind = ops.precision[op] if ops.precision[op] in ("tf32", "fp32") else ops.cause[op]
        if kind != ops.cause[op] and ops.cause[op] == "gpu_attention":
            kind = "attention"
        return by_kind.get(kind, 1.0)

    scaled = _scaled(durations, factor)
    if "host" not in by_kind:
        return _with_shorter_waits(facts, durations, scaled)
    # Autocast adds casts to launch.
    waits, times = facts.program.input_waits, by_kind["host"]
    think = _integers(
        ns if call in waits or call in facts.stalls else round(ns * times)
        for call, ns in enumerate(scaled.think)
    )
    return replace(scaled, think=think, call=_integers(round(ns * times) for ns in scaled.call))


def _with_shorter_waits(facts: ProgramFacts, before: Durations, after: Durations) -> Durations:
    # A change of all ranks shortens the kernels of slower ranks, too: waits for them shrink alike.
    waits = rank_wait_ns(facts)
    kernels = [op for op, cause in enumerate(facts.program.ops.cause) if is_compute(cause)]
    total = sum(before.op[op] for op in kernels)
    if not waits or not total:
        return after
    part = sum(after.op[op] for op in kernels) / total
    op_ns = after.op[:]
    for op, wait in waits.items():
        op_ns[op] -= round((1 - part) * min(wait, op_ns[op]))
    return replace(after, op=op_ns)


def _compile(facts: ProgramFacts, _change: Change, case: str, durations: Durations) -> Durations:
    causes, by_cause = facts.program.ops.cause, factors("compile", case, "duration")
    return _scaled(durations, lambda op: by_cause.get(causes[op], 1.0))


def updates(program: Program) -> list[int]:
    """Return the kernels of optimizer steps that are not fused, in order of start."""
    ops = program.ops
    kernels = [op for op, kind in enumerate(ops.kind) if kind == "kernel"]
    marked = [place for place, op in enumerate(kernels) if ops.is_update[op]]
    unfused: list[int] = []
    run: list[int] = []
    for place in [*marked, len(kernels) + _LONGEST_BREAK + 2]:
        if run and place - run[-1] > _LONGEST_BREAK + 1:
            if len(run) >= _SHORTEST_RUN:
                unfused += kernels[run[0] : run[-1] + 1]
            run = []
        run.append(place)
    return unfused


def _fused_optimizer(
    facts: ProgramFacts, _change: Change, case: str, durations: Durations
) -> Durations:
    fused = updates(facts.program)
    times = factors("fused_optimizer", "likely", "duration")["update"]
    left = round(1 / factors("fused_optimizer", "likely", "launches")["update"])
    inside = set(fused)
    think, call_ns = durations.think[:], durations.call[:]
    for number, op in enumerate(fused):
        call = facts.program.ops.call[op]
        if number % left and call >= 0:
            think[call], call_ns[call] = 0, 0
    scaled = _scaled(durations, lambda op: times if op in inside else 1.0)
    return replace(scaled, think=think, call=call_ns)


def _channels_last(
    facts: ProgramFacts, _change: Change, case: str, durations: Durations
) -> Durations:
    causes = facts.program.ops.cause
    return _scaled(durations, lambda op: 0.0 if causes[op] == "gpu_layout" else 1.0)


def matching(facts: ProgramFacts, pattern: str) -> set[int]:
    """Return the kernels whose name a regular expression matches."""
    ops = facts.program.ops
    names = {name for name in set(ops.name) if re.search(pattern, name)}
    return {op for op, name in enumerate(ops.name) if name in names and ops.kind[op] == "kernel"}


def _drop(facts: ProgramFacts, change: Change, case: str, durations: Durations) -> Durations:
    dropped = matching(facts, change.pattern)
    call_ns = durations.call[:]
    for op in dropped:
        if (call := facts.program.ops.call[op]) >= 0:
            call_ns[call] = 0
    return replace(_scaled(durations, lambda op: 0.0 if op in dropped else 1.0), call=call_ns)


def _scale(facts: ProgramFacts, change: Change, case: str, durations: Durations) -> Durations:
    scaled = matching(facts, change.pattern)
    factor = change.factor
    return _scaled(durations, lambda op: factor if op in scaled else 1.0)


def _gpu(facts: ProgramFacts, change: Change, case: str, durations: Durations) -> Durations:
    # Yu et al., Habitat (USENIX ATC 2021): wave scaling, with gamma 0 for matrix work, else 1.
    now, other = facts.gpus(change.pattern)
    compute, memory = now.compute / other.compute, now.bandwidth / other.bandwidth
    causes, kinds = facts.program.ops.cause, facts.program.ops.kind

    def factor(op: int) -> float:
        if kinds[op] != "kernel" or causes[op] == "communication":
            return 1.0
        return compute if causes[op].startswith(("gpu_matmul", "gpu_attention")) else memory

    return _scaled(durations, factor)


# The user states the assumption, or the trace shows it.
EXACT = {"comm", "drop", "scale", "gpu"}
# The operations of the GPU stay as they are.
HOST_CHANGES = {"input", "workers", "host_stalls", "graph", "no_sync", "no_alloc"}
EFFECTS: dict[str, Effect] = {
    "input": _input,
    "workers": _input,
    "host_stalls": _host_stalls,
    "pinned": _pinned,
    "overlap_copies": _copies,
    "graph": _graph,
    "amp": _amp,
    "compile": _compile,
    "compress": compress,
    "overlap_comm": overlap_comm,
    "bucket": bucket,
    "fused_optimizer": _fused_optimizer,
    "channels_last": _channels_last,
    "no_sync": _no_sync,
    "no_alloc": _no_alloc,
    "comm": comm,
    "straggler": straggler,
    "drop": _drop,
    "scale": _scale,
    "gpu": _gpu,
}
