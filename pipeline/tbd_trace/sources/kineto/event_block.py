"""Decode one block of events with DuckDB."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import duckdb

from tbd_trace.sqltext import string

# Texts for what varies: ids are texts in some releases. DuckDB reads the digits of a decimal from
# the text; a double would be off by up to 248 ns.
_COLUMNS = (
    "{ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', "
    "ts: 'DECIMAL(24,3)', dur: 'DECIMAL(24,3)', args: 'JSON'}"
)
_LEAST_BUFFER = 1 << 20
# Kinds of rows by the category of events, frequent ones first, because they are compared in this
# order; the last ones are those of torch 1.8.
_KIND_OF_CATEGORY = {
    "cpu_op": "operator",
    "cuda_runtime": "call",
    "kernel": "kernel",
    "cuda_driver": "call",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "cuda_sync": "synchronization",
    "user_annotation": "user",
    "overhead": "overhead",
    "xpu_runtime": "call",
    "operator": "operator",
    "runtime": "call",
    "memcpy": "memcpy",
    "memset": "memset",
}
_CATEGORIES = " ".join(
    f"WHEN '{category}' THEN '{kind}'" for category, kind in _KIND_OF_CATEGORY.items()
)
# Tasks of an Ascend NPU in a trace of torch_npu, whose events of the device have no category.
_ASCEND_TASK = """
    CASE
        WHEN regexp_matches(args ->> '$."Task Type"', 'AI_?(CORE|CPU|VEC)|MIX_AI') THEN 'kernel'
        WHEN regexp_matches(args ->> '$."Task Type"', 'MEMCPY|SDMA') THEN 'memcpy'
    END"""
_KIND = f"""
    CASE
        WHEN ph = 'X' AND cat IS NULL THEN {_ASCEND_TASK}
        WHEN ph = 'X' THEN CASE lower(cat)
            WHEN 'python_function' THEN if(starts_with(name, 'nn.Module: '), 'module', 'frame')
            {_CATEGORIES}
        END
        WHEN ph IN ('i', 'I') AND name = '[memory]' THEN 'memory'
        WHEN ph = 'M' AND name IN ('process_name', 'thread_name') THEN name
    END"""
# Only texts that are used are copied. IN would become a join.
_BLOCK = """
    CREATE OR REPLACE TEMP TABLE kineto_block AS
    SELECT ph, cat, kind, start_ns, duration_ns, end_ns,
        if(is_kept, name, NULL) AS name, if(is_host OR is_kept, pid, NULL) AS pid,
        if(is_host OR is_kept, tid, NULL) AS tid,
        if(is_kept OR {has_frames} AND kind = 'frame', args, NULL) AS args, is_kept, is_host,
        CASE
            WHEN kind IS NULL OR kind IN ('process_name', 'thread_name') THEN NULL
            WHEN end_ns IS NULL OR kind <> 'memory' AND duration_ns IS NULL THEN 'without times'
            WHEN start_ns = 0 AND coalesce(duration_ns, 0) = 0 THEN 'at time 0'
            WHEN duration_ns < 0 THEN 'with negative durations'
            WHEN name IS NULL THEN 'without names'
        END AS defect
    FROM (
        SELECT *, coalesce(list_contains([{kept}], kind), false) AS is_kept,
            coalesce(list_contains([{host}], kind), false) AS is_host,
            TRY_CAST(ts * 1000 AS BIGINT) AS start_ns,
            TRY_CAST(dur * 1000 AS BIGINT) AS duration_ns,
            TRY(start_ns + coalesce(duration_ns, 0)) AS end_ns
        FROM (
            SELECT *, {kind} AS kind
            FROM read_json({path}, format = 'array', columns = {columns},
                maximum_object_size = {size})
        )
    )"""
FRAME = "frame"  # of Python, except calls of modules; kept on request
KINDS = (
    "kernel", "memcpy", "memset", "call", "synchronization", "operator", "user", "module",
    "overhead", "memory", "process_name", "thread_name",
)  # fmt: skip
_HOST_KINDS = ("call", "operator", "user", "module")


class EventBlock:
    """A connection whose table ``kineto_block`` has the events of one block at a time.

    Args:
        file: where a block is written for DuckDB.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, file: Path) -> None:
        self.connection = connection
        self._file = file

    def decode(self, text: bytes | memoryview, kinds: Collection[str]) -> bool:
        """Replace the events by others, separated by commas; return False if they are invalid.

        Args:
            kinds: kinds of rows whose texts are wanted.
        """
        with self._file.open("wb") as file:
            file.writelines((b"[", text, b"]"))
        statement = _BLOCK.format(
            kept=_texts(kinds),
            host=_texts((*_HOST_KINDS, *({FRAME} & set(kinds)))),
            has_frames="module" in kinds,
            kind=_KIND,
            path=string(str(self._file)),
            columns=_COLUMNS,
            # DuckDB takes several times as much memory.
            size=max(len(text), _LEAST_BUFFER),
        )
        try:
            self.connection.execute(statement)
        except (duckdb.InvalidInputException, duckdb.ConversionException):
            return False
        return True


def _texts(values: Iterable[str]) -> str:
    return ", ".join(map(string, values))
