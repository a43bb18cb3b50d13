"""Rows of the derived relations that a replay computes: a function for each, of its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tbd_trace.errors import CannotAnswerError
from tbd_trace.why.changes import CHANGES, WITH_ARGUMENT, Change, parse_change
from tbd_trace.why.judgement import FEWEST_STEPS, Judgement
from tbd_trace.why.predictions import predicted
from tbd_trace.why.processes import Process, gpus, judgements, programs, simulator
from tbd_trace.why.replay import Schedule
from tbd_trace.why.shares import intervals, merged
from tbd_trace.why.stalls import stalls
from tbd_trace.why.whatif import Simulator

if TYPE_CHECKING:
    import duckdb
    import polars as pl

Row = dict[str, Any]


def step_cause(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return the causes of each process, by rank."""
    return _frame(row for one in judgements(connection) for row in _causes(one))


def _causes(one: Judgement) -> Iterator[Row]:
    about = one.to_dict()
    for rank, cause in enumerate(about["causes"], 1):
        yield (
            about
            | cause
            | {
                "rank": rank,
                "gain_pct": _gain_pct(one.judged_step_ns, cause["best_step_ns"]),
                "is_change": cause["cause"] == one.change,
            }
        )


def _gain_pct(now_ns: float | None, then_ns: float | None) -> float | None:
    return 100 * (now_ns / then_ns - 1) if now_ns is not None and then_ns else None


def cause_interval(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return the causes of each process over time."""
    return _frame(
        _key(one) | {"device_id": one.program.device_id} | interval._asdict()
        for one in programs(connection)
        for interval in merged(intervals(one.program, stalls(one.program)))
    )


def replay_event(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return the times of all calls and operations of each process after the changes."""
    changes = _parsed(_asked(connection))
    return _frame(
        _key(one) | row
        for one in programs(connection)
        for row in _events(Simulator(one.program, gpus(connection, one.program)).schedule(changes))
    )


def _events(times: Schedule) -> Iterator[Row]:
    calls, ops = (times.call_start, times.call_end), (times.op_start, times.op_end)
    for event, (starts, ends) in (("call", calls), ("operation", ops)):
        for position, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
            yield {"event": event, "position": position, "start_ns": start, "end_ns": end}


def changed_step(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return the step of each process after the changes, or after each change by itself."""
    asked = _asked(connection)
    each = [_parsed(asked)] if asked else [[parse_change(name)] for name in _alone()]
    return _frame(
        row
        for one in programs(connection)
        if len(one.program.steps) >= FEWEST_STEPS
        for row in _predictions(one, simulator(connection, one.program), each)
    )


def _alone() -> list[str]:
    return [name for name in CHANGES if name not in WITH_ARGUMENT]


def _predictions(one: Process, sim: Simulator, each: list[list[Change]]) -> Iterator[Row]:
    for changes in each:
        row = _key(one) | {"change": " + ".join(change.text for change in changes)}
        try:
            yield row | predicted(sim, changes, one.pid).to_dict() | {"reason": None}
        except CannotAnswerError as error:
            yield row | {"now_step_ns": sim.measured_ns, "notes": [], "reason": str(error)}


def _asked(connection: duckdb.DuckDBPyConnection) -> str:
    ((text,),) = connection.execute("SELECT coalesce(getvariable('change'), '')").fetchall()
    return str(text).strip()


def _parsed(text: str) -> list[Change]:
    return [parse_change(change.strip()) for change in text.split(";") if change.strip()]


def _key(one: Process) -> Row:
    return {"trace_id": one.program.trace_id, "process_id": one.program.process_id}


def _frame(rows: Iterator[Row]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415 - its import takes time

    return pl.DataFrame(list(rows), infer_schema_length=None)
