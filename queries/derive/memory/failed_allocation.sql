/*
title    = "Allocations that failed"
question = "Which allocations failed, because memory was exhausted?"
source   = """failures as recorded; of traces without the table memory_failure the events of this
    kind, which do not state the free bytes of the device"""
grain    = "allocation that failed"
needs    = [["memory_failure", "memory_event"]]
returns = [
    "trace_id", "space", "process_id", "device_id", "allocator", "sequence", "timestamp_ns",
    "requested_bytes", "device_free_bytes", "stack_id",
]
[columns]
space = "key of the memory space"
requested_bytes = "bytes that the program asked for; NULL when unknown"
[advice]
missing = "needs allocations that failed; {memory}"
*/
WITH recorded AS (
    SELECT trace_id, hash(trace_id, process_id, device_id, allocator, NULL::VARCHAR) AS space,
        process_id, device_id, allocator, sequence, timestamp_ns, requested_bytes,
        device_free_bytes, stack_id
    FROM memory_failure
)
FROM recorded
UNION ALL BY NAME
SELECT e.trace_id, hash(e.trace_id, e.process_id, e.device_id, e.allocator, e.memory_kind) AS space,
    e.process_id, e.device_id, e.allocator, e.sequence, e.timestamp_ns,
    coalesce(e.requested_bytes, e.bytes) AS requested_bytes, e.stack_id
FROM memory_event AS e
ANTI JOIN recorded AS r ON r.trace_id = e.trace_id
WHERE e.operation = 'out_of_memory'
