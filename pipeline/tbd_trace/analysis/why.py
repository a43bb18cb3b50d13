"""Answer ``why`` and ``whatif`` about traces of a database or archive."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import duckdb

from tbd_trace.errors import CannotAnswerError
from tbd_trace.model.canonical_tables import ALLOCATIONS
from tbd_trace.query.catalogue import Catalogue
from tbd_trace.query.connection import connected, prepare, tables_behind
from tbd_trace.query.execution import checked_values
from tbd_trace.query.header import Query, Scalar
from tbd_trace.query.needs import check_derived, check_needs
from tbd_trace.query.parts import divide
from tbd_trace.sources.recording_actions import action
from tbd_trace.sqltext import set_variable
from tbd_trace.store.base import TraceStore
from tbd_trace.why.changes import Change, parse_change
from tbd_trace.why.diagnosis import FEWEST_STEPS, Diagnosis, slowest_first
from tbd_trace.why.host_only import INPUTS as HOST_INPUTS
from tbd_trace.why.host_only import host_diagnoses
from tbd_trace.why.memory_diagnosis import MemoryDiagnosis
from tbd_trace.why.memory_peak import INPUTS as PEAK_INPUTS
from tbd_trace.why.memory_peak import IS_RECORDED, memory_peaks
from tbd_trace.why.memory_reader import INPUTS as MEMORY_INPUTS
from tbd_trace.why.memory_reader import memory_diagnoses, most_urgent_first
from tbd_trace.why.memory_result import MemoryVerdict
from tbd_trace.why.predictions import WhatIf, predicted
from tbd_trace.why.processes import INPUTS, Process, diagnoses, programs, simulator
from tbd_trace.why.program_reader import STRAGGLERS
from tbd_trace.why.result import Why

# States the needs for messages about missing data.
_NEEDS = Query("why", Path("why"), "", "Causes of slow training", needs=["kernel", "gpu_op"])
_REASONS_SHOWN = 3
_ANY_TOOL = "other"  # actions for it name no profiler
_Answer = TypeVar("_Answer")


def why(
    database: TraceStore, trace_ids: Sequence[str], parameters: Mapping[str, str] | None = None
) -> Why | MemoryVerdict:
    """Diagnose traces: the time of their steps, or their memory if they have no times.

    Args:
        parameters: those of the query ``why``.

    Raises:
        CannotAnswerError: no trace contains kernels, marked steps or operators on a CPU, or memory.
        UsageError: a parameter is unknown, or its value invalid.
    """
    values = checked_values(Catalogue().get("why"), parameters)
    try:
        results = list(chain.from_iterable(_ask_parts(database, trace_ids, _diagnoses, values)))
    except CannotAnswerError:
        results = _diagnoses_without_gpu(database, trace_ids)
        if not results:
            if memory := _memory_diagnoses(database, trace_ids):
                return MemoryVerdict(memory)
            raise
    if not results:
        raise CannotAnswerError("why needs operations with a duration; profile a longer part")
    return Why(slowest_first(results))


def whatif(database: TraceStore, trace_ids: Sequence[str], changes: Sequence[str]) -> WhatIf:
    """Predict the step of the process with the longest steps after some changes.

    Raises:
        CannotAnswerError: no trace contains enough steps.
        UsageError: a change is unknown, or its argument invalid.
    """
    ask = partial(_predict_slowest, changes=[parse_change(text) for text in changes])
    return max(_ask_parts(database, trace_ids, ask, {}), key=lambda answer: answer[0])[1]


def _diagnoses_without_gpu(database: TraceStore, trace_ids: Sequence[str]) -> list[Diagnosis]:
    names = set(HOST_INPUTS)
    with connected(database, trace_ids, contextlib.nullcontext(), tables_behind(names)) as (
        connection,
        cache,
    ):
        prepare(connection, names, cache, transient=True)
        return host_diagnoses(connection)


def _memory_diagnoses(database: TraceStore, trace_ids: Sequence[str]) -> list[MemoryDiagnosis]:
    names = set(MEMORY_INPUTS)
    found: list[MemoryDiagnosis] = []
    for part in divide(database, trace_ids, together="job"):
        with connected(database, part, contextlib.nullcontext(), tables_behind(names)) as (
            connection,
            cache,
        ):
            prepare(connection, names, cache, transient=True)
            found += memory_diagnoses(connection)
    return most_urgent_first(found)


def _diagnoses(connection: duckdb.DuckDBPyConnection) -> list[Diagnosis]:
    found, peaks = diagnoses(connection), memory_peaks(connection)
    return [replace(diagnosis, memory=peaks.get(diagnosis.trace_id)) for diagnosis in found]


def _predict_slowest(
    connection: duckdb.DuckDBPyConnection, changes: Sequence[Change]
) -> tuple[float, WhatIf]:
    # The mean step, and the prediction.
    slowest = max(programs(connection), key=_step_ns, default=None)
    if slowest is None or not _step_ns(slowest):
        tool = slowest.program.tool if slowest else _ANY_TOOL
        raise CannotAnswerError(f"whatif needs a complete step; {action(tool, 'steps')}")
    answer = predicted(simulator(connection, slowest.program), changes, slowest.pid)
    return _step_ns(slowest), answer


def _step_ns(process: Process) -> float:
    # 0 with too few steps
    program = process.program
    return (program.base.mean_ns or 0.0) if len(program.steps) >= FEWEST_STEPS else 0.0


def _ask_parts(
    database: TraceStore,
    trace_ids: Sequence[str],
    ask: Callable[[duckdb.DuckDBPyConnection], _Answer],
    values: Mapping[str, Scalar],
) -> list[_Answer]:
    # Of large traces one capture or job at a time: memory does not grow with their number.
    answers: list[_Answer] = []
    reasons: dict[str, None] = {}
    for part in divide(database, trace_ids, together="job"):
        try:
            with _ready(database, part, values) as connection:
                answers.append(ask(connection))
        except CannotAnswerError as error:
            reasons[str(error)] = None
    if not answers:
        raise CannotAnswerError("; ".join(list(reasons)[:_REASONS_SHOWN]))
    return answers


@contextlib.contextmanager
def _ready(
    database: TraceStore, trace_ids: Sequence[str], values: Mapping[str, Scalar]
) -> Iterator[duckdb.DuckDBPyConnection]:
    names = {*INPUTS, "gpu_op", "kernel"}
    tables = tables_behind({*names, *PEAK_INPUTS, ALLOCATIONS})
    with connected(database, trace_ids, contextlib.nullcontext(), tables) as (
        connection,
        cache,
    ):
        check_needs(connection, _NEEDS)
        for name, value in values.items():
            connection.execute(set_variable(name, value))
        prepare(connection, names - {STRAGGLERS}, cache, transient=True)
        if connection.execute(IS_RECORDED).fetchone():
            prepare(connection, PEAK_INPUTS, cache, transient=True)
        if connection.execute("FROM rank_wait LIMIT 1").fetchone():
            prepare(connection, [STRAGGLERS], cache, transient=True)
        check_derived(connection, _NEEDS)
        yield connection
