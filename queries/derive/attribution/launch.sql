/*
title    = "Launches"
question = "Which host call launched each GPU operation, and on which thread?"
source   = "CUPTI correlation ids, which are unique per process only"
grain    = "host call that launched GPU operations"
needs    = ["gpu_op"]
optional = ["api_call"]
returns = [
    "trace_id", "process_id", "thread_id", "api_call_id", "correlation_id", "name", "start_ns",
    "end_ns", "host_thread", "position", "is_sole", "from_ns", "until_ns",
]
[columns]
process_id = "key of the process"
api_call_id = "launching call"
correlation_id = "joins (with process_id) to the operations"
name = "function name"
start_ns = "start of the call"
end_ns = "end of the call"
host_thread = """number of the thread, used to sort and join launches and ranges; NULL when the
    thread is unknown"""
position = "order of the call among the launches of its thread, from 1"
is_sole = """true if no other process launched with this correlation id: operations of an unknown
    process with this id belong to this launch"""
from_ns = """operations that start before this time belong to an earlier launch with the same
    correlation id; NULL for the first launch of an id"""
until_ns = """operations that start at or after this time belong to a later launch with the same
    correlation id; NULL for the last launch of an id"""
*/
WITH
caused AS (
    SELECT DISTINCT trace_id, process_id, correlation_id
    FROM gpu_op WHERE correlation_id IS NOT NULL
),
-- A runtime call and the driver call inside it can share an id; the outer one is the launch.
first AS MATERIALIZED (
    SELECT a.*, max(a.start_ns) OVER (
            PARTITION BY a.trace_id, a.process_id, a.correlation_id) >= a.end_ns AS is_followed
    FROM api_call a
    SEMI JOIN caused c
        ON  a.trace_id = c.trace_id AND a.correlation_id = c.correlation_id
        AND (c.process_id IS NULL OR a.process_id = c.process_id)
    WHERE a.api = 'cuda'
    QUALIFY row_number() OVER (
        PARTITION BY a.trace_id, a.process_id, a.correlation_id
        ORDER BY a.start_ns, a.end_ns DESC, a.api_call_id) = 1
),
-- A call that starts after all earlier calls with its id have ended is another launch: CUPTI counts
-- ids in 32 bits, which long runs exhaust. Nearly all ids are used once and skip this second sort.
again AS (
    SELECT a.*
    FROM api_call a
    SEMI JOIN (FROM first WHERE is_followed) f
        ON  f.trace_id = a.trace_id AND f.process_id IS NOT DISTINCT FROM a.process_id
        AND f.correlation_id = a.correlation_id
    WHERE a.api = 'cuda'
    QUALIFY coalesce(a.start_ns >= max(a.end_ns) OVER (
        PARTITION BY a.trace_id, a.process_id, a.correlation_id
        ORDER BY a.start_ns, a.end_ns DESC, a.api_call_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true)
),
call AS (
    SELECT * EXCLUDE (is_followed), NULL::BIGINT AS from_ns, NULL::BIGINT AS until_ns
    FROM first WHERE NOT is_followed
    UNION ALL BY NAME
    SELECT *,
        CASE WHEN row_number() OVER id > 1 THEN start_ns END AS from_ns,
        lead(start_ns) OVER id AS until_ns
    FROM again
    WINDOW id AS (
        PARTITION BY trace_id, process_id, correlation_id
        ORDER BY start_ns, end_ns DESC, api_call_id)
),
-- The numbers are stored in the cache, so ORDER BY makes them reproducible.
thread_number AS (
    SELECT *, row_number() OVER (ORDER BY trace_id, process_id, thread_id)::INTEGER AS thread
    FROM (SELECT DISTINCT trace_id, process_id, thread_id FROM api_call WHERE api = 'cuda')
)
-- `position` is computed last: rows in the order of the calls compress to a third.
SELECT l.trace_id, l.process_id, l.thread_id, l.api_call_id, l.correlation_id, l.name, l.start_ns,
    l.end_ns,
    CASE WHEN l.thread_id IS NOT NULL THEN t.thread END AS host_thread,
    row_number() OVER (PARTITION BY t.thread ORDER BY l.start_ns, l.end_ns, l.api_call_id)
        AS position,
    l.is_sole, l.from_ns, l.until_ns
FROM (
    SELECT *,
        min(coalesce(process_id, -1)) OVER id = max(coalesce(process_id, -1)) OVER id AS is_sole
    FROM call WINDOW id AS (PARTITION BY trace_id, correlation_id)
) l
JOIN thread_number t
    ON  t.trace_id = l.trace_id AND t.process_id IS NOT DISTINCT FROM l.process_id
    AND t.thread_id IS NOT DISTINCT FROM l.thread_id
