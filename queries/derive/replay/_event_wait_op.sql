/*
title    = "Operations that waits for events await"
question = "Which GPU operation does a wait for a CUDA event wait for?"
source   = """the last operation of the event's stream that was launched before the event was
    recorded"""
grain    = "wait for an event whose record and operation are known"
needs    = ["event_wait", "synchronization", "api_call", "gpu_op", "op_launch"]
returns = [
    "trace_id", "process_id", "api_call_id", "device_id", "stream_id", "wait_ns", "op_kind",
    "op_id",
]
[columns]
process_id = "key of the process; -1 when unknown"
api_call_id = "the call that waits, or makes a stream wait"
device_id = "device; -1 when unknown"
stream_id = "stream that waits; NULL if the call itself waits"
wait_ns = "start of that call"
op_kind = "kernel, memcpy, memset or graph"
op_id = "the operation"
*/
WITH
-- A driver call inside a runtime call has the same id; the outer call counts.
call AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, correlation_id,
        min(start_ns) AS start_ns,
        arg_min(api_call_id, (start_ns, -end_ns, api_call_id)) AS api_call_id
    FROM api_call WHERE api = 'cuda'
    GROUP BY trace_id, coalesce(process_id, -1), correlation_id
),
event AS (
    SELECT y.trace_id, coalesce(y.process_id, -1) AS process_id,
        coalesce(y.device_id, -1) AS device_id,
        CASE WHEN y.sync_type = 'stream wait event' THEN y.stream_id END AS stream_id,
        y.correlation_id, e.event_stream_id, e.record_correlation_id
    FROM event_wait e
    JOIN synchronization y USING (trace_id, synchronization_id)
    WHERE y.sync_type = 'event synchronize'
       OR y.sync_type = 'stream wait event' AND y.stream_id IS NOT NULL
)
SELECT e.trace_id, e.process_id, w.api_call_id, e.device_id, e.stream_id, w.start_ns AS wait_ns,
    o.op_kind, o.op_id
FROM event e
JOIN call w USING (trace_id, process_id, correlation_id)
JOIN call r
    ON  r.trace_id = e.trace_id AND r.process_id = e.process_id
    AND r.correlation_id = e.record_correlation_id
ASOF JOIN (
    SELECT o.trace_id, coalesce(l.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id, o.stream_id, o.op_kind, o.op_id, l.launch_start_ns
    FROM gpu_op o
    JOIN op_launch l USING (trace_id, op_kind, op_id)
) o
    ON  o.trace_id = e.trace_id AND o.process_id = e.process_id AND o.device_id = e.device_id
    AND o.stream_id = e.event_stream_id AND r.start_ns >= o.launch_start_ns
