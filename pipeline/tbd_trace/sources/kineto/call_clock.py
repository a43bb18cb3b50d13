"""Move calls of HIP into the operators that made them, where their clock is another one."""

from __future__ import annotations

import duckdb

# The External id of a call is that of the operator that was running on its thread.
_MOVED = """
    CREATE OR REPLACE TEMP TABLE moved_call AS
    WITH identified AS (
        SELECT event_id, kind, name, pid, tid, start_ns, duration_ns,
            TRY_CAST(args ->> '$."External id"' AS BIGINT) AS external_id
        FROM event WHERE kind IN ('call', 'operator')
    ),
    operator AS (
        SELECT pid, tid, external_id, any_value(start_ns) AS start_ns,
            any_value(start_ns + duration_ns) AS end_ns
        FROM identified WHERE kind = 'operator' AND external_id IS NOT NULL
        GROUP BY ALL HAVING count(*) = 1
    )
    SELECT c.event_id, o.start_ns AS start_ns,
        least(o.start_ns + c.duration_ns, o.end_ns) AS end_ns, o.start_ns - c.start_ns AS by_ns
    FROM identified AS c
    JOIN operator AS o USING (pid, tid, external_id)
    WHERE c.kind = 'call' AND starts_with(c.name, 'hip')
        AND (c.start_ns < o.start_ns OR c.start_ns + c.duration_ns > o.end_ns)"""
_NONE_MOVED = """
    CREATE OR REPLACE TEMP TABLE moved_call (event_id BIGINT, start_ns BIGINT, end_ns BIGINT)"""


def create_moved_calls(connection: duckdb.DuckDBPyConnection, *, is_rocm: bool) -> list[str]:
    """Create the table ``moved_call`` with new times of calls; return notes.

    ROCm can stamp calls of HIP with another clock than PyTorch its operators, so that they do
    not lie inside the operators that made them.
    """
    if not is_rocm:
        connection.execute(_NONE_MOVED)
        return []
    connection.execute(_MOVED)
    found = connection.execute("SELECT count(*), median(abs(by_ns)) / 1e3 FROM moved_call")
    ((moved, usual_us),) = found.fetchall()
    if not moved:
        return []
    return [
        f"calls of HIP that are not inside the operators that made them: {moved:,}, usually by "
        f"{usual_us:,.3g} µs; they are moved into these, which their External ids name"
    ]
