/*
title    = "Memory events by memory space"
question = "Which events belong to which allocator, device and process?"
grain    = "event"
needs    = ["memory_event"]
view     = true
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.sequence]
doc = "position of the event"
[columns.timestamp_ns]
unit = "ns"
doc = "time, trace clock; NULL if the file has no times"
[columns.operation]
doc = "as memory_event.operation"
[columns.context_id]
doc = "CUDA context; NULL outside of CUDA"
[columns.address]
doc = "address"
[columns.bytes]
unit = "byte"
doc = "requested size; of a segment its size"
[columns.stack_id]
doc = "call stack; NULL without one"
[columns.class]
doc = "class as stated by the source"
[columns.layer]
doc = "layer as stated by the source"
[columns.phase]
doc = "phase as stated by the source"
*/
SELECT trace_id, hash(process_id, device_id, allocator, memory_kind) AS space, sequence,
    timestamp_ns, operation, context_id, address, coalesce(requested_bytes, bytes) AS bytes,
    stack_id, class, layer, phase
FROM memory_event
