"""Find the process of each event of a trace."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

import duckdb

from tbd_trace.sources.kineto.kept_events import HostThread
from tbd_trace.sources.value_table import create_value_table


def create_process_macros(
    connection: duckdb.DuckDBPyConnection, threads: Collection[HostThread], calls: str
) -> list[str]:
    """Create ``host_process(pid)``, ``gpu_process(correlation, event)`` and ``host_thread``.

    Returns notes.

    Args:
        calls: SELECT of the rows of ``api_call``; it may use ``host_process``.
    """
    working = {process for process, _, is_user in threads if not is_user} - {None}
    others = {process for process, _, is_user in threads if is_user} - working - {None}
    # Ranges of the program can have the process number of another namespace, that of a container.
    renamed = others if len(working) == 1 else set()
    (only,) = working if len(working) == 1 else others if len(working | others) == 1 else (None,)
    host = "TRY_CAST(pid AS BIGINT)"
    if renamed:
        listed = ", ".join(map(str, sorted(filter(None, renamed))))
        host = f"CASE WHEN {host} IN ({listed}) THEN {only} ELSE {host} END"
    connection.execute(f"CREATE OR REPLACE TEMP MACRO host_process(pid) AS {host}")
    # GPU operations have the device in place of the process: theirs is that of the call.
    merged: list[str] = []
    gpu = f"{'NULL' if only is None else only}::BIGINT"
    if only is None and working:
        gpu, merged = _launching_process(connection, calls)
    connection.execute(f"CREATE OR REPLACE TEMP MACRO gpu_process(c, event) AS {gpu}")
    rows = {(only if process in renamed else process, thread) for process, thread, _ in threads}
    columns = {
        "process_id": ("BIGINT", [process for process, _ in rows]),
        "thread_id": ("BIGINT", [thread for _, thread in rows]),
    }
    create_value_table(connection, "host_thread", columns)
    notes = [
        f"ranges of process {listed} are of process {only}, the only one with other events"
        for listed in [", ".join(map(str, sorted(filter(None, renamed))))]
        if listed
    ]
    return notes + merged


def _launching_process(connection: duckdb.DuckDBPyConnection, calls: str) -> tuple[str, list[str]]:
    # The process of the event with a correlation id; a note if several processes have the same ids.
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE launching AS
        SELECT correlation_id AS correlation,
            CASE WHEN count(DISTINCT process_id) = 1 THEN any_value(process_id) END AS process_id
        FROM ({calls}) WHERE correlation_id IS NOT NULL GROUP BY correlation_id
        """
    )
    process = "(SELECT l.process_id FROM launching AS l WHERE l.correlation = c)"
    found = connection.execute("SELECT count(*) FILTER (process_id IS NULL) FROM launching")
    ((shared,),) = found.fetchall()
    if not shared:
        return process, []
    merged = f"the file merges several processes, which have {shared:,} correlation ids in common; "
    by_position = _process_by_position(connection)
    if by_position is None:
        return process, [
            f"{merged}their GPU operations have no process; give each rank in another file"
        ]
    note = f"{merged}their GPU operations are assigned by the order of events"
    return f"coalesce({process}, {by_position})", [note]


def _process_by_position(connection: duckdb.DuckDBPyConnection) -> str | None:
    # The process of an event by its place; None unless the events of the processes follow each
    # other.
    blocks = connection.execute(
        """
        SELECT host_process(pid) AS process, min(event_id) AS first, max(event_id) AS last
        FROM event WHERE kind IN ('call', 'operator') AND host_process(pid) IS NOT NULL
        GROUP BY ALL ORDER BY first
        """
    ).fetchall()
    if any(before[2] > after[1] for before, after in pairwise(blocks)):
        return None
    cases = " ".join(f"WHEN event >= {first} THEN {process}" for process, first, _ in blocks[::-1])
    return f"CASE {cases} ELSE {blocks[0][0]} END::BIGINT"
