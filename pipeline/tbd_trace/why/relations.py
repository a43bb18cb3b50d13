"""Rows of the derived relations that a replay computes: a function for each, of its name."""

# numpy and polars are imported when a relation is computed, because their imports take time.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tbd_trace.errors import CannotAnswerError
from tbd_trace.why.changes import CHANGES, WITH_ARGUMENT, Change, parse_change
from tbd_trace.why.diagnosis import FEWEST_STEPS, Diagnosis
from tbd_trace.why.edges import EDGE
from tbd_trace.why.predictions import predicted
from tbd_trace.why.processes import Process, diagnoses, gpus, programs, simulator
from tbd_trace.why.program import Program
from tbd_trace.why.shares import intervals, merged
from tbd_trace.why.stalls import stalls
from tbd_trace.why.whatif import Simulator

if TYPE_CHECKING:
    import duckdb
    import polars as pl

Row = dict[str, Any]


def step_cause(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return the causes of each process, by rank."""
    return _frame(row for diagnosis in diagnoses(connection) for row in _causes(diagnosis))


def _causes(diagnosis: Diagnosis) -> Iterator[Row]:
    about = diagnosis.to_dict()
    for rank, cause in enumerate(about["causes"], 1):
        gain_pct = _gain_pct(diagnosis.judged_step_ns, cause["likely_step_ns"])
        is_change = cause["cause"] == diagnosis.change
        yield about | cause | {"rank": rank, "gain_pct": gain_pct, "is_change": is_change}


def _gain_pct(now_ns: float | None, then_ns: float | None) -> float | None:
    return 100 * (now_ns / then_ns - 1) if now_ns is not None and then_ns else None


def cause_interval(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return the causes of each device of a process over time."""
    return _together(
        _intervals(process, program, stalled)
        for process in programs(connection, without_kernels=True)
        for stalled in [stalls(process.program)]
        for program in map(process.program.on, process.program.devices)
    )


def _intervals(process: Process, program: Program, stalled: Collection[int]) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    columns = merged(intervals(program, stalled))
    names = pl.Series(columns.names, dtype=pl.String)
    return pl.DataFrame(
        {
            "start_ns": np.asarray(columns.start_ns),
            "end_ns": np.asarray(columns.end_ns),
            "cause": names.gather(np.asarray(columns.cause)),
            "share": np.asarray(columns.share),
        }
    ).select(*_keys(process), pl.lit(program.device_id).alias("device_id"), pl.all())


def replay_event(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return the times of all calls and operations of each process after the changes."""
    changes = _parsed(_changes_text(connection))
    return _together(
        frame
        for process in programs(connection)
        for frame in _events(
            process, Simulator(process.program, gpus(connection, process.program)), changes
        )
    )


def _events(process: Process, sim: Simulator, changes: list[Change]) -> Iterator[pl.DataFrame]:
    import polars as pl

    times, names = sim.schedule(changes), _names(changes)
    calls, ops = (times.call_start, times.call_end), (times.op_start, times.op_end)
    for event, (starts, ends) in (("call", calls), ("operation", ops)):
        frame = pl.DataFrame({"start_ns": starts, "end_ns": ends})
        if event == "operation":  # as in gpu_chain, which has no edges of steps
            frame = frame.filter(pl.Series(process.program.ops.kind) != EDGE)
        yield frame.with_row_index("position", 1).select(
            *_keys(process), pl.lit(names).alias("change"), pl.lit(event).alias("event"), pl.all()
        )


def changed_step(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return the step of each process after the changes, or after each change by itself."""
    text = _changes_text(connection)
    groups = [_parsed(text)] if text else [[parse_change(name)] for name in _alone()]
    return _frame(
        row
        for process in programs(connection)
        if len(process.program.steps) >= FEWEST_STEPS
        for row in _predictions(process, simulator(connection, process.program), groups)
    )


def _alone() -> list[str]:
    return [name for name in CHANGES if name not in WITH_ARGUMENT]


def _predictions(process: Process, sim: Simulator, groups: list[list[Change]]) -> Iterator[Row]:
    for changes in groups:
        row = _key(process) | {"change": _names(changes)}
        try:
            yield row | predicted(sim, changes, process.pid).to_dict() | {"reason": None}
        except CannotAnswerError as error:
            yield row | {"now_step_ns": sim.measured_ns, "notes": [], "reason": str(error)}


def _changes_text(connection: duckdb.DuckDBPyConnection) -> str:
    ((text,),) = connection.execute("SELECT coalesce(getvariable('change'), '')").fetchall()
    return str(text).strip()


def _parsed(text: str) -> list[Change]:
    return [parse_change(change.strip()) for change in text.split(";") if change.strip()]


def _names(changes: Sequence[Change]) -> str:
    return " + ".join(change.text for change in changes)


def _key(process: Process) -> Row:
    return {"trace_id": process.program.trace_id, "process_id": process.program.process_id}


def _keys(process: Process) -> list[pl.Expr]:
    import polars as pl

    return [pl.lit(value).alias(name) for name, value in _key(process).items()]


def _together(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    tables = list(frames)
    return pl.concat(tables, how="vertical_relaxed") if tables else pl.DataFrame()


def _frame(rows: Iterable[Row]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(list(rows), infer_schema_length=None)
