/*
title    = "Lifetimes of recorded addresses"
question = "From which event to which event was each allocation live?"
source   = """a lifetime ends at the completed release, at an allocation of the same address, or
    not at all; a release without an allocation ends one that began before the recording"""
grain    = "allocation"
needs    = ["_allocation_event"]
optional = ["memory_block"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for host memory"
[columns.allocator]
doc = "as memory_event.allocator"
[columns.memory_kind]
doc = "as memory_event.memory_kind"
[columns.address]
doc = "address"
[columns.requested_bytes]
unit = "byte"
doc = "requested size"
[columns.born_sequence]
doc = "event of the allocation; NULL if it is older than the recording"
[columns.died_sequence]
doc = "event that ended it; NULL if it is live at the end"
*/
WITH
neighbour AS (
    SELECT *,
        lag(is_allocation) OVER address_order AS after_allocation,
        lead(sequence) OVER address_order AS next_sequence
    FROM _allocation_event
    WINDOW address_order AS (
        PARTITION BY trace_id, process_id, device_id, context_id, allocator, memory_kind, address
        ORDER BY sequence
    )
),
-- What the snapshot holds at its end without an allocation in its history.
last_event AS (
    SELECT trace_id, process_id, device_id, address,
        arg_max(is_allocation, sequence) AS is_allocation
    FROM _allocation_event WHERE allocator = 'torch'
    GROUP BY trace_id, process_id, device_id, address
)
SELECT trace_id, process_id, device_id, allocator, memory_kind, address,
    bytes AS requested_bytes,
    if(is_allocation, sequence, NULL) AS born_sequence,
    if(is_allocation, next_sequence, sequence) AS died_sequence
FROM neighbour
WHERE is_allocation OR after_allocation IS NOT TRUE
UNION ALL
SELECT b.trace_id, b.process_id, b.device_id, 'torch', NULL, b.address,
    coalesce(b.requested_bytes, b.bytes), NULL, NULL
FROM memory_block AS b
LEFT JOIN last_event AS e
    ON e.trace_id = b.trace_id
    AND e.process_id IS NOT DISTINCT FROM b.process_id
    AND e.device_id IS NOT DISTINCT FROM b.device_id
    AND e.address = b.address
WHERE b.state LIKE 'active%' AND e.is_allocation IS NOT TRUE
