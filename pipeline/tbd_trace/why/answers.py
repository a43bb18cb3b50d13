"""Answer ``why`` and ``whatif`` about traces of a database or archive."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from tbd_trace.errors import CannotAnswerError
from tbd_trace.query.connection import connected, prepare, tables_behind
from tbd_trace.query.header import Query
from tbd_trace.query.needs import check_derived, check_needs
from tbd_trace.store.base import TraceStore
from tbd_trace.why.changes import Change, parse_change, validated_by
from tbd_trace.why.judgement import FEWEST_STEPS, title
from tbd_trace.why.processes import judgements, programs, simulator
from tbd_trace.why.program import RELATIONS, Program
from tbd_trace.why.result import WhatIf, Why
from tbd_trace.why.shares import shares
from tbd_trace.why.whatif import Simulator

# States the needs for messages about missing data.
_QUERY = Query("why", Path("why"), "", "Causes of slow training", needs=["kernel", "gpu_op"])
_HOST_CHANGES = {"input", "workers", "host_stalls", "graph", "no_sync", "no_alloc"}
_NO_PREDICTION = (
    "memory limits, accuracy, other algorithms of a library and work that a new loader adds are "
    "not modelled"
)


def why(database: TraceStore, trace_ids: Sequence[str]) -> Why:
    """Judge traces.

    Raises:
        CannotAnswerError: no trace contains kernels.
    """
    with _ready(database, trace_ids) as connection:
        found = judgements(connection)
    if not found:
        raise CannotAnswerError("why needs operations with a duration; profile a longer part")
    return Why(found)


def whatif(database: TraceStore, trace_ids: Sequence[str], changes: Sequence[str]) -> WhatIf:
    """Predict the step of the process with the longest steps after some changes.

    Raises:
        CannotAnswerError: no trace contains enough steps.
        UsageError: a change is unknown, or its argument invalid.
    """
    parsed = [parse_change(text) for text in changes]
    with _ready(database, trace_ids, "device_peak") as connection:
        found = programs(connection)
        judged = [(p, pid) for p, _, pid in found if len(p.steps) >= FEWEST_STEPS]
        if not judged:
            raise CannotAnswerError(
                f"whatif needs at least {FEWEST_STEPS} complete steps; record more, or mark steps "
                "with NVTX"
            )
        program, pid = max(judged, key=lambda one: sum(one[0].step_ns) / len(one[0].steps))
        return _predicted(simulator(connection, program), parsed, pid)


def _predicted(sim: Simulator, changes: list[Change], pid: int | None) -> WhatIf:
    program = sim.program
    host = [change.text for change in changes if change.name in _HOST_CHANGES]
    if host and not program.knows_launches:
        raise CannotAnswerError(
            f"whatif {host[0]} needs the launching calls; profile with `nsys profile -t cuda,nvtx`"
        )
    found = sim.predict(changes)
    after = sim.after(changes)
    left = shares(after, sim.stalls)
    # With more workers the loader may still limit the step, which the replay does not contain.
    waits = found.step_ns * len(after.steps) - sum(left.values())
    if waits > 0 and any(change.name == "workers" for change in changes):
        left["input_pipeline"] = left.get("input_pipeline", 0.0) + waits
    top = max(left, key=lambda cause: left[cause])
    evidence = "estimated, unvalidated" if _unvalidated(changes) else "replay"
    return WhatIf(
        change=" + ".join(change.text for change in changes),
        trace_id=program.trace_id,
        pid=pid,
        now_step_ns=sim.measured_ns,
        step_ns=found.step_ns,
        gain_pct=100 * (sim.measured_ns / found.step_ns - 1),
        best_step_ns=found.best_ns,
        likely_step_ns=found.likely_ns,
        worst_step_ns=found.worst_ns,
        validated_by=validated_by(changes),
        evidence=evidence,
        top_cause=title(top),
        top_share_pct=100 * left[top] / sum(left.values()),
        notes=_notes(program, changes),
    )


def _unvalidated(changes: Sequence[Change]) -> bool:
    return any(change.name == "gpu" for change in changes)


def _notes(program: Program, changes: Sequence[Change]) -> list[str]:
    notes = []
    names = {change.name for change in changes}
    if "amp" in names and not program.gains_by_amp:
        notes.append("matrix work is in FP16 or BF16 already, or there is none")
    if names & {"input", "workers"} and not program.input_waits:
        notes.append("no wait for input was found")
    return [*notes, _NO_PREDICTION]


@contextlib.contextmanager
def _ready(
    database: TraceStore, trace_ids: Sequence[str], *more: str
) -> Iterator[duckdb.DuckDBPyConnection]:
    names = {*RELATIONS, *more, "gpu_op", "process", "trace", "memcpy", "kernel", "gpu_products"}
    with connected(database, trace_ids, contextlib.nullcontext(), tables_behind(names)) as (
        connection,
        cache,
    ):
        check_needs(connection, _QUERY)
        prepare(connection, names, cache)
        check_derived(connection, _QUERY)
        yield connection
