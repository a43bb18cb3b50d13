/*
title    = "Allocations and releases, by address"
question = "Which allocation does each event end, and which event ends it?"
source   = """a release, or an allocation at an address that is still in use, ends the allocation
    before it at the address"""
grain    = "allocation or release"
needs    = ["memory_event"]
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.sequence]
doc = "position of the event"
[columns.timestamp_ns]
unit = "ns"
doc = "time, trace clock; NULL if the file has no times"
[columns.is_allocation]
doc = "true for an allocation, false for a release"
[columns.address]
doc = "address"
[columns.bytes]
unit = "byte"
doc = "requested size"
[columns.next_sequence]
doc = "next event at the address; NULL for the last one"
[columns.next_ns]
unit = "ns"
doc = "time of the next event at the address"
[columns.next_stack_id]
doc = "call stack of the next event at the address; NULL without one"
[columns.ends_recorded]
doc = "true if it ends a recorded allocation"
[columns.ended_bytes]
unit = "byte"
doc = "bytes that it releases"
[columns.stack_id]
doc = "call stack; NULL without one"
[columns.class]
doc = "class as stated by the source"
[columns.phase]
doc = "phase as stated by the source"
*/
WITH event AS (
    SELECT trace_id, hash(trace_id, process_id, device_id, allocator, memory_kind) AS space,
        -- One key takes the window functions half the time of its columns.
        hash(trace_id, process_id, device_id, allocator, memory_kind, context_id) AS context,
        sequence, timestamp_ns, operation = 'allocate' AS is_allocation, address,
        coalesce(requested_bytes, bytes) AS bytes, stack_id, class, phase
    FROM memory_event
    WHERE operation IN ('allocate', 'free') AND address IS NOT NULL
)
SELECT trace_id, space, sequence, timestamp_ns, is_allocation, address, bytes,
    lead(sequence) OVER address_order AS next_sequence,
    lead(timestamp_ns) OVER address_order AS next_ns,
    lead(stack_id) OVER address_order AS next_stack_id,
    lag(is_allocation) OVER address_order IS TRUE AS ends_recorded,
    CASE
        WHEN lag(is_allocation) OVER address_order THEN lag(bytes) OVER address_order
        WHEN is_allocation THEN 0
        ELSE bytes
    END AS ended_bytes,
    stack_id, class, phase
FROM event
WINDOW address_order AS (PARTITION BY address, context ORDER BY sequence)
