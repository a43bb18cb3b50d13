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
)
-- The position comes last: rows in the order of the calls take a third of the room.
SELECT trace_id, process_id, thread_id, api_call_id, correlation_id, name, start_ns, end_ns,
    row_number() OVER (
        PARTITION BY trace_id, process_id, thread_id ORDER BY start_ns, end_ns, api_call_id) AS position,
    is_sole
FROM (SELECT *, count(*) OVER (PARTITION BY trace_id, correlation_id) = 1 AS is_sole FROM call)
