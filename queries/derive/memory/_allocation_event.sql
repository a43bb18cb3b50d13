/*
title    = "Allocations and releases"
question = "Which allocations and releases were recorded, by address?"
grain    = "event"
needs    = ["memory_event"]
view     = true
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for host memory"
[columns.context_id]
doc = "CUDA context; NULL outside of CUDA"
[columns.allocator]
doc = "as memory_event.allocator"
[columns.memory_kind]
doc = "as memory_event.memory_kind"
[columns.address]
doc = "address"
[columns.sequence]
doc = "position of the event"
[columns.is_allocation]
doc = "true for an allocation, false for a release"
[columns.bytes]
unit = "byte"
doc = "requested size"
*/
SELECT trace_id, process_id, device_id, context_id, allocator, memory_kind, address, sequence,
    operation = 'allocate' AS is_allocation, coalesce(requested_bytes, bytes) AS bytes
FROM memory_event
WHERE operation IN ('allocate', 'free') AND address IS NOT NULL
