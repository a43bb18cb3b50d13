/*
title    = "Allocations and releases, by address"
question = "Which allocation does each event end, and which event ends it?"
source   = """a release, or an allocation at an address that is still in use, ends the allocation
    before it at the address"""
grain    = "allocation or release"
needs    = ["memory_event"]
returns = [
    "trace_id", "space", "sequence", "timestamp_ns", "is_allocation", "address", "bytes",
    "next_sequence", "next_ns", "next_stack_id", "ends_recorded", "ended_bytes", "stack_id",
    "class", "phase",
]
[columns]
space = "key of the memory space"
sequence = "position of the event"
is_allocation = "true for an allocation, false for a release"
address = "address"
bytes = {unit = "byte", doc = "requested size"}
next_sequence = "next event at the address; NULL for the last one"
next_ns = "time of the next event at the address"
next_stack_id = "call stack of the next event at the address; NULL without one"
ends_recorded = "true if it ends a recorded allocation"
ended_bytes = "bytes that it releases"
stack_id = "call stack; NULL without one"
class = "class as stated by the source"
phase = "phase as stated by the source"
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
