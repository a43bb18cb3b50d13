/*
title    = "Launches"
question = "Which host call launched each GPU operation, and from which thread?"
source   = "CUPTI correlation ids, which are unique per process only"
grain    = "one host call that caused GPU operations"
needs    = ["gpu_op"]
optional = ["api_call"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.api_call_id]
doc = "the call"
[columns.correlation_id]
doc = "joins, with process_id, to the operations"
[columns.name]
doc = "function name"
[columns.start_ns]
unit = "ns"
doc = "start of the call"
[columns.end_ns]
unit = "ns"
doc = "end of the call"
[columns.host_thread]
doc = "number of the thread, by which launches and ranges are sorted and joined; NULL where the thread is not known"
[columns.position]
doc = "order of the call among the launches of its thread, from 1"
[columns.is_sole]
doc = "no other process launched with this correlation id: the operations with it whose process the file does not tell are its"
*/
WITH
caused AS (
    SELECT DISTINCT trace_id, process_id, correlation_id
    FROM gpu_op WHERE correlation_id IS NOT NULL
),
-- A runtime call and the driver call inside it may share an id: the outer one is the launch.
call AS (
    SELECT a.*
    FROM api_call a
    JOIN caused c
        ON  a.trace_id = c.trace_id AND a.correlation_id = c.correlation_id
        AND (c.process_id IS NULL OR a.process_id = c.process_id)
    WHERE a.api = 'cuda'
    QUALIFY row_number() OVER (
        PARTITION BY a.trace_id, a.process_id, a.correlation_id
        ORDER BY a.start_ns, a.end_ns DESC, a.api_call_id) = 1
),
-- What is kept for the next question has these numbers in it: they must come out alike every time.
thread_number AS (
    SELECT *, row_number() OVER (ORDER BY trace_id, process_id, thread_id)::INTEGER AS thread
    FROM (SELECT DISTINCT trace_id, process_id, thread_id FROM api_call WHERE api = 'cuda')
)
-- The position comes last: rows in the order of the calls take a third of the room.
SELECT l.trace_id, l.process_id, l.thread_id, l.api_call_id, l.correlation_id, l.name, l.start_ns, l.end_ns,
    CASE WHEN l.thread_id IS NOT NULL THEN t.thread END AS host_thread,
    row_number() OVER (PARTITION BY t.thread ORDER BY l.start_ns, l.end_ns, l.api_call_id) AS position,
    l.is_sole
FROM (SELECT *, count(*) OVER (PARTITION BY trace_id, correlation_id) = 1 AS is_sole FROM call) l
JOIN thread_number t
    ON  t.trace_id = l.trace_id AND t.process_id IS NOT DISTINCT FROM l.process_id
    AND t.thread_id IS NOT DISTINCT FROM l.thread_id
