"""Read the program of a process from derived relations."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

from tbd_trace.runtime.duckdb_connection import return_memory
from tbd_trace.runtime.result_frames import frame
from tbd_trace.why.base import load_base
from tbd_trace.why.copies import CHECKPOINT, checkpoint_copies
from tbd_trace.why.edges import StepWindow, insert_edges, moved
from tbd_trace.why.events import Calls, Ops, integers
from tbd_trace.why.overlap import OverlapCost
from tbd_trace.why.program import InputWait, Program

if TYPE_CHECKING:
    import duckdb
    import polars as pl

STRAGGLERS = "straggler_cause"  # reads all operators, which takes time
RELATIONS = (
    "gpu_chain", "host_chain", "step_window", "input_wait", "rank_wait", "kernel_group",
    "sampled_limit", "memcpy", "iteration", "host_window", "clock_check", "overlap_cost",
    "compile_wait", "op_scope", "collective", "job_member",
    STRAGGLERS,
)  # fmt: skip

_MOST_ROWS = 100_000  # read at once; memory of larger results is not returned to the system

_CALLS = """
SELECT coalesce(thread_id, -1) AS thread_id, name, kind, start_ns, end_ns,
    coalesce(waited_position, 0) - 1 AS waited, coalesce(think_ns, 0) AS think_ns,
    coalesce(awaited_op, 0) - 1 AS awaited, coalesce(tail_ns, 0) AS tail_ns
FROM host_chain
WHERE trace_id = $trace AND process_id = $process AND position BETWEEN $first AND $last
ORDER BY position"""
_OPS = """
SELECT g.device_id, g.op_kind, g.name, coalesce(g.bytes, k.bytes, 0) AS bytes, g.start_ns,
    g.end_ns, coalesce(g.previous_position, 0) - 1 AS previous,
    coalesce(h.position, 0) - 1 AS call, coalesce(g.awaited_position, 0) - 1 AS awaited, g.lag_ns,
    CASE WHEN g.op_kind = 'graph' THEN 'gpu_other' WHEN g.op_kind <> 'kernel' THEN 'copies'
         WHEN s.phase = 'optimizer' AND c.cause <> 'communication' THEN 'gpu_optimizer'
         ELSE coalesce(c.cause, 'gpu_other') END AS cause,
    CASE WHEN regexp_matches(k.dtype, 'Half|BFloat16|Float8') THEN 'half'
         WHEN s.phase IS DISTINCT FROM 'optimizer' THEN coalesce(c.precision, '') ELSE '' END
        AS precision, coalesce(c.is_update, false) AS is_update,
    coalesce(m.src_kind = 'pageable' OR m.dst_kind = 'pageable', false) AS is_pageable
FROM gpu_chain g
LEFT JOIN host_chain h
    ON  h.trace_id = g.trace_id AND h.process_id = g.process_id AND h.api_call_id = g.api_call_id
LEFT JOIN kernel_group c
    ON c.trace_id = g.trace_id AND c.name = g.name AND g.op_kind = 'kernel'
LEFT JOIN op_scope s
    ON  s.trace_id = g.trace_id AND s.op_kind = g.op_kind AND s.op_id = g.op_id
LEFT JOIN (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        stream_id, start_ns, max(bytes) AS bytes, max(dtype) AS dtype
    FROM collective WHERE source = 'kernel' GROUP BY ALL
) k
    ON  c.cause = 'communication' AND k.trace_id = g.trace_id AND k.process_id = g.process_id
    AND k.device_id = g.device_id AND k.stream_id IS NOT DISTINCT FROM g.stream_id
    AND k.start_ns = g.start_ns
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

_ANY_RANK_WAIT = "FROM rank_wait WHERE trace_id = $trace AND process_id = $process LIMIT 1"
_RANKS = """
SELECT r.position - 1 AS op, r.wait_ns, r.last_rank, s.sentence
FROM rank_wait r
LEFT JOIN straggler_cause s ON s.job = r.job AND s.rank = r.last_rank
WHERE r.trace_id = $trace AND r.process_id = $process ORDER BY r.position"""

_SAMPLED = """
SELECT device_id, sentence
FROM sampled_limit
WHERE trace_id = $trace AND process_id = $process AND sentence IS NOT NULL"""

_OVERLAP = """
SELECT device_id, slowdown, cost_ns, places, matched_pct
FROM overlap_cost WHERE trace_id = $trace AND process_id = $process AND slowdown > 1"""

_JOB = """
SELECT count(DISTINCT o.rank), max(r.world_size)
FROM job_member r
JOIN job_member o USING (job)
WHERE r.trace_id = $trace HAVING max(r.world_size) > 1"""

_COMPILE = """
SELECT position - 1 AS call, start_ns, end_ns
FROM compile_wait WHERE trace_id = $trace AND process_id = $process ORDER BY position, start_ns"""

_CLOCKS = """
SELECT coalesce(device_id, -1), reason
FROM clock_check
WHERE trace_id = $trace AND coalesce(process_id, -1) = $process AND NOT agrees"""


def load(
    connection: duckdb.DuckDBPyConnection,
    trace_id: str,
    process_id: int,
    tool: str,
    *,
    trains: bool,
) -> Program:
    """Read the program of a process; the relations of ``RELATIONS`` exist.

    ``STRAGGLERS`` is not read if ``rank_wait`` is empty.
    """

    def rows(sql: str, **places: int) -> pl.DataFrame:
        values = {"trace": trace_id, "process": process_id, **places}
        return frame(connection.sql(sql, params=values))

    def columns(sql: str) -> list[Any]:
        lists: list[Any] = []
        for first in count(1, _MOST_ROWS):
            part = rows(sql, first=first, last=first + _MOST_ROWS - 1)
            if first == 1:
                lists = list(map(_values, part))
            else:
                for column, values in zip(lists, part, strict=True):
                    column.extend(_values(values))
                return_memory(connection)
            if part.height < _MOST_ROWS:
                break
        return lists

    windows, waits = rows(_STEPS), rows(_INPUT).rows()
    late = rows(_RANKS).rows() if rows(_ANY_RANK_WAIT).height else []
    ((stream_gap_ns, launch_lag_ns),) = rows(_USUAL).rows()
    calls, ops = Calls(*columns(_CALLS)), Ops(*columns(_OPS))
    device_id = windows["device_id"][0] if windows.height else _busiest(ops)
    steps = [StepWindow(*row) for row in windows.drop("device_id").iter_rows()]
    compile_waits: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for call, start_ns, end_ns in rows(_COMPILE).rows():
        compile_waits[call].append((start_ns, end_ns))
    pairs, places = insert_edges(ops, steps, device_id)
    calls.awaited = moved(calls.awaited, places)
    program = Program(
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
        {places[op]: (ns, rank) for op, ns, rank, _ in late},
        {rank: sentence for _, _, rank, sentence in late},
        dict(rows(_SAMPLED).rows()).get(device_id),
        dict(rows(_CLOCKS).rows()),
        {device: OverlapCost(*cost) for device, *cost in rows(_OVERLAP).rows()},
        compile_waits,
        connection.execute(_JOB, {"trace": trace_id}).fetchone(),
    )
    for op in checkpoint_copies(program):
        ops.cause[op] = CHECKPOINT
    return program


def _values(column: pl.Series) -> Any:
    # A long trace has millions: integers take 8 bytes each, and equal texts are one object.
    if column.dtype.is_integer():
        return integers(column.to_numpy())
    texts: dict[str | bool, str | bool] = {}
    return [texts.setdefault(value, value) for value in column]


def _busiest(ops: Ops) -> int:
    # of a process without steps; step_window chooses it in the same way
    busy_ns = Counter[int]()
    for device, start, end in zip(ops.device, ops.start, ops.end, strict=True):
        busy_ns[device] += end - start
    return min(busy_ns, key=lambda device: (-busy_ns[device], device))
