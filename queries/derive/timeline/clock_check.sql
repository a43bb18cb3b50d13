/*
title    = "Clocks of GPU and host"
question = "Can the times of the GPU be compared with those of the host?"
source   = """an operation starts after its launching call began; at ingestion, GPU times are
    shifted to the host clock if possible (trace.notes)"""
grain    = "device used by a process"
needs    = ["trace", "op_scope"]
[columns]
trace_id = "the trace"
process_id = "key of the process; NULL when unknown"
device_id = "device; NULL when unknown"
launches = "operations with a recorded launch"
early = "operations that start more than 50 µs before their launch"
shortest_ns = """shortest time from the start of a launch to the start of its operation; NULL
    without launches"""
agrees = """true if no contradiction was found: at most 1 % of the operations start before their
    launch, some operation starts within a second of its launch, and ingestion found no other"""
reason = "why the clocks do not agree; NULL if they agree"
*/
WITH
-- 50 µs is the tolerance of queries/ingest/audit/clock.sql.
lag AS (
    SELECT trace_id, process_id, device_id, count(launch_start_ns) AS launches,
        count(*) FILTER (start_ns < launch_start_ns - 50000) AS early,
        min(start_ns - launch_start_ns) AS shortest_ns
    FROM op_scope GROUP BY trace_id, process_id, device_id
)
SELECT trace_id, process_id, device_id, launches, early, shortest_ns, reason IS NULL AS agrees,
    reason
FROM (
    SELECT l.*,
        CASE
            WHEN len(list_filter(t.notes,
                    lambda note: starts_with(note, 'GPU and host clocks do not agree'))) > 0
                THEN 'GPU and host clocks do not agree (see the notes of the trace)'
            WHEN l.early > l.launches / 100
                THEN 'GPU and host clocks do not agree: operations start before their launch'
            WHEN l.shortest_ns > 1000000000
                THEN 'GPU and host clocks do not agree: no operation starts within a second of its '
                    || 'launch'
        END AS reason
    FROM lag l
    JOIN trace t USING (trace_id)
)
