"""Find the process of each event of a trace."""

from __future__ import annotations

from collections.abc import Collection

import duckdb

from tbd_trace.sources.kineto.kept_events import HostThread
from tbd_trace.sources.value_table import create_value_table


def create_process_macros(
    connection: duckdb.DuckDBPyConnection, threads: Collection[HostThread], calls: str
) -> list[str]:
    """Create ``host_process(pid)``, ``gpu_process(correlation)``, ``host_thread``; return notes.

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
    gpu = f"{'NULL' if only is None else only}::BIGINT"
    if only is None and working:
        connection.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE launching AS
            SELECT correlation_id AS correlation, any_value(process_id) AS process_id
            FROM ({calls}) GROUP BY correlation_id HAVING count(DISTINCT process_id) = 1
            """
        )
        gpu = "(SELECT l.process_id FROM launching AS l WHERE l.correlation = c)"
    connection.execute(f"CREATE OR REPLACE TEMP MACRO gpu_process(c) AS {gpu}")
    rows = {(only if process in renamed else process, thread) for process, thread, _ in threads}
    columns = {
        "process_id": ("BIGINT", [process for process, _ in rows]),
        "thread_id": ("BIGINT", [thread for _, thread in rows]),
    }
    create_value_table(connection, "host_thread", columns)
    return [
        f"ranges of process {listed} are of process {only}, the only one with other events"
        for listed in [", ".join(map(str, sorted(filter(None, renamed))))]
        if listed
    ]
