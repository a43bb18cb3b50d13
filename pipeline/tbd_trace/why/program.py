"""The calls, GPU operations and steps of one process, as the replay reads them."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tbd_trace.runtime.duckdb_connection import return_memory
from tbd_trace.runtime.result_frames import frame
from tbd_trace.why.base import Base, load_base
from tbd_trace.why.edges import EDGE, StepWindow, insert_edges, moved
from tbd_trace.why.events import Calls, Ops, integers
from tbd_trace.why.overlap import OverlapCost

if TYPE_CHECKING:
    import duckdb
    import polars as pl

RELATIONS = (
    "gpu_chain", "host_chain", "step_window", "input_wait", "rank_wait", "kernel_group",
    "sampled_limit", "memcpy", "iteration", "host_window", "clock_check", "overlap_cost",
)  # fmt: skip

MOSTLY_BUSY = 0.9
"""Part of a step in which the GPU works, from which on neither host nor loader limit it."""
_MOST_LAUNCHED = 0.8
_MOST_ROWS = 100_000  # read at once; memory of larger results is not returned to the system
_SHORTEST_DELAY_NS = 1_000_000
_LONGER_THAN_TO_TAKE_NS = 1_000_000  # a batch that is ready is taken in less
_LEAST_FULL = 0.05  # share of matrix work that is not in half precision

_CALLS = """
SELECT coalesce(thread_id, -1) AS thread_id, name, kind, start_ns, end_ns,
    coalesce(waited_position, 0) - 1 AS waited, coalesce(think_ns, 0) AS think_ns,
    coalesce(awaited_op, 0) - 1 AS awaited, coalesce(tail_ns, 0) AS tail_ns
FROM host_chain
WHERE trace_id = $trace AND process_id = $process AND position BETWEEN $first AND $last
ORDER BY position"""
_OPS = """
SELECT g.device_id, g.op_kind, g.name, coalesce(g.bytes, 0) AS bytes, g.start_ns,
    g.end_ns, coalesce(g.previous_position, 0) - 1 AS previous,
    coalesce(h.position, 0) - 1 AS call, coalesce(g.awaited_position, 0) - 1 AS awaited, g.lag_ns,
    coalesce(c.cause, CASE g.op_kind WHEN 'graph' THEN 'gpu_other' ELSE 'copies' END) AS cause,
    coalesce(c.precision, '') AS precision, coalesce(c.is_update, false) AS is_update,
    coalesce(m.src_kind = 'pageable' OR m.dst_kind = 'pageable', false) AS is_pageable
FROM gpu_chain g
LEFT JOIN host_chain h
    ON  h.trace_id = g.trace_id AND h.process_id = g.process_id AND h.api_call_id = g.api_call_id
LEFT JOIN kernel_group c
    ON c.trace_id = g.trace_id AND c.name = g.name AND g.op_kind = 'kernel'
LEFT JOIN memcpy m
    ON m.trace_id = g.trace_id AND m.memcpy_id = g.op_id AND g.op_kind = 'memcpy'
WHERE g.trace_id = $trace AND g.process_id = $process AND g.position BETWEEN $first AND $last
ORDER BY g.position"""
_USUAL = """
SELECT stream_gap_ns, launch_lag_ns
FROM gpu_chain WHERE trace_id = $trace AND process_id = $process LIMIT 1"""
_STEPS = """
SELECT device_id, position - 1 AS op, coalesce(next_position, 0) - 1 AS next_op,
    coalesce(begin_position, 0) - 1 AS begin_call, coalesce(end_position, 0) - 1 AS end_call,
    start_ns, end_ns
FROM step_window WHERE trace_id = $trace AND process_id = $process ORDER BY step"""
_INPUT = """
SELECT position - 1 AS call, evidence, start_ns, end_ns, wait_ns,
    coalesce(is_loaded_here, false) AS is_loaded_here
FROM input_wait WHERE trace_id = $trace AND process_id = $process ORDER BY position"""

_RANKS = """
SELECT position - 1 AS op, wait_ns, last_rank
FROM rank_wait WHERE trace_id = $trace AND process_id = $process ORDER BY position"""

_SAMPLED = """
SELECT device_id, sentence
FROM sampled_limit
WHERE trace_id = $trace AND process_id = $process AND sentence IS NOT NULL"""

_OVERLAP = """
SELECT device_id, slowdown, cost_ns, places, matched_pct
FROM overlap_cost WHERE trace_id = $trace AND process_id = $process AND slowdown > 1"""

_CLOCKS = """
SELECT coalesce(device_id, -1), reason
FROM clock_check
WHERE trace_id = $trace AND coalesce(process_id, -1) = $process AND NOT agrees"""


class InputWait(NamedTuple):
    """A row of input_wait: a wait for the next batch in the pause before a call."""

    evidence: str
    start_ns: int
    end_ns: int
    ns: int
    is_loaded_here: bool  # by the launching thread itself


@dataclass(slots=True)
class Program:
    """One process of a trace.

    ``steps`` are the steps of ``base`` with GPU operations, as pairs: first operation of a step and
    of the next one.
    """

    trace_id: str
    process_id: int
    device_id: int
    calls: Calls
    ops: Ops
    stream_gap_ns: int  # usual time between operations of a stream
    launch_lag_ns: int  # usual time from a launch to its operation on an idle stream
    steps: list[tuple[int, int]]
    base: Base
    trains: bool  # it is known or assumed to train
    tool: str  # profiler that recorded it, as in trace.tool
    input_waits: dict[int, InputWait] = field(default_factory=dict)  # by the call after it
    rank_waits: dict[int, tuple[int, int]] = field(default_factory=dict)  # ns and last rank by op
    sampled: str | None = None  # what limits the kernels, by periodic GPU metrics
    skewed: dict[int, str] = field(default_factory=dict)  # devices on another clock than the host
    overlap_costs: dict[int, OverlapCost] = field(default_factory=dict)  # by device

    @property
    def devices(self) -> list[int]:
        """The devices of the process."""
        return sorted(set(self.ops.device))

    def on(self, device_id: int) -> Program:
        """Return the program with another of its devices in ``device_id``."""
        if device_id == self.device_id:
            return self
        ops = self.ops
        # The steps end on this device, too.
        device = array("q", ops.device)
        for op, kind in enumerate(ops.kind):
            if kind == EDGE:
                device[op] = device_id
        return replace(self, device_id=device_id, ops=replace(ops, device=device))

    @property
    def op_step_ns(self) -> list[int]:
        """Measured durations of the steps of the replay."""
        start = self.ops.start
        return [start[end] - start[begin] for begin, end in self.steps]

    @property
    def overlap_cost(self) -> OverlapCost | None:
        """What communication adds to the kernels that run beside it; None if it is not known."""
        return self.overlap_costs.get(self.device_id)

    @property
    def knows_launches(self) -> bool:
        """True if the launching calls of most operations of the steps are recorded."""
        ops = self.measured_ops
        launched = sum(self.ops.call[op] >= 0 for op in ops)
        return launched >= _MOST_LAUNCHED * len(ops)

    @property
    def explains_idle(self) -> bool:
        """True if the trace shows what the host did while the device was idle."""
        return self.device_id not in self.skewed and self.knows_launches

    @property
    def arrivals(self) -> dict[int, int]:
        """When the batches of loader workers arrived, by the call that waited for them.

        Workers that limit the steps do not load faster if the GPU works faster. While the GPU works
        all the time, they limit nothing.
        """
        waits = {
            call: self.calls.start[call]
            for call, wait in self.input_waits.items()
            if not wait.is_loaded_here and wait.ns > _LONGER_THAN_TO_TAKE_NS
        }
        # Most programs have no such waits, and need no busy time here.
        if not (waits and self.steps) or self.busy_ns >= MOSTLY_BUSY * fmean(self.op_step_ns):
            return {}
        return waits

    @property
    def busy_ns(self) -> float:
        """Mean time of a step in which the device works."""
        own = np.equal(self.ops.device, self.device_id)
        start, end = np.asarray(self.ops.start)[own], np.asarray(self.ops.end)[own]
        begun = np.maximum(start, np.maximum.accumulate(np.concatenate([[0], end[:-1]])))
        at = [(self.ops.start[a], self.ops.start[b]) for a, b in self.steps]
        busy = [np.minimum(end, last) - np.maximum(begun, first) for first, last in at]
        return fmean(float(ns.clip(min=0).sum()) for ns in busy)

    def delay_ns(self, op: int) -> int:
        """Return the time before an operation that nothing in the trace explains, from 1 ms on.

        Work or other programs that the trace does not contain may have occupied the GPU.
        """
        ops, call = self.ops, self.ops.call[op]
        if call < 0 or ops.awaited[op] >= 0:
            return 0
        delay = min(ops.lag[op], ops.start[op] - self.calls.end[call])
        return delay if delay > _SHORTEST_DELAY_NS else 0

    @property
    def gains_by_amp(self) -> bool:
        """True if matrix work, or attention without any, is not in half precision already."""
        ops = self.ops
        spent, of_attention = Counter[bool](), Counter[bool]()
        for op, precision in enumerate(ops.precision):
            if precision:
                counted = of_attention if ops.cause[op] == "gpu_attention" else spent
                counted[precision == "half"] += ops.end[op] - ops.start[op]
        spent = spent or of_attention
        return spent[False] > _LEAST_FULL * spent.total()

    @property
    def measured_ops(self) -> range:
        """The operations that start within the steps; all of them without steps."""
        if not self.steps:
            return range(len(self.ops.start))
        return range(self.steps[0][0], self.steps[-1][1])


def load(
    connection: duckdb.DuckDBPyConnection,
    trace_id: str,
    process_id: int,
    tool: str,
    *,
    trains: bool,
) -> Program:
    """Read the program of a process; the relations of ``RELATIONS`` exist."""

    def rows(sql: str, **places: int) -> pl.DataFrame:
        values = {"trace": trace_id, "process": process_id, **places}
        return frame(connection.sql(sql, params=values))

    def columns(sql: str) -> list[Any]:
        found: list[Any] = []
        for first in count(1, _MOST_ROWS):
            part = rows(sql, first=first, last=first + _MOST_ROWS - 1)
            if first == 1:
                found = list(map(_values, part))
            else:
                for column, values in zip(found, part, strict=True):
                    column.extend(_values(values))
                return_memory(connection)
            if part.height < _MOST_ROWS:
                break
        return found

    windows, waits = rows(_STEPS), rows(_INPUT).rows()
    ((stream_gap_ns, launch_lag_ns),) = rows(_USUAL).rows()
    calls, ops = Calls(*columns(_CALLS)), Ops(*columns(_OPS))
    device_id = windows["device_id"][0] if windows.height else _busiest(ops)
    steps = [StepWindow(*row) for row in windows.drop("device_id").iter_rows()]
    pairs, places = insert_edges(ops, steps, device_id)
    calls.awaited = moved(calls.awaited, places)
    return Program(
        trace_id,
        process_id,
        device_id,
        calls,
        ops,
        stream_gap_ns,
        launch_lag_ns,
        pairs,
        load_base(connection, trace_id, process_id),
        trains,
        tool,
        {call: InputWait(*wait) for call, *wait in waits},
        {places[op]: (ns, rank) for op, ns, rank in rows(_RANKS).rows()},
        dict(rows(_SAMPLED).rows()).get(device_id),
        dict(rows(_CLOCKS).rows()),
        {device: OverlapCost(*cost) for device, *cost in rows(_OVERLAP).rows()},
    )


def _values(column: pl.Series) -> Any:
    # A long trace has millions: integers take 8 bytes each, and equal texts are one object.
    if column.dtype.is_integer():
        return integers(column.to_numpy())
    texts: dict[str | bool, str | bool] = {}
    return [texts.setdefault(value, value) for value in column]


def _busiest(ops: Ops) -> int:
    # of a process without steps; step_window chooses it in the same way
    spent = Counter[int]()
    for device, start, end in zip(ops.device, ops.start, ops.end, strict=True):
        spent[device] += end - start
    return min(spent, key=lambda device: (-spent[device], device))
