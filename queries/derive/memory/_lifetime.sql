/*
title    = "Lifetimes of recorded addresses"
question = "From which event to which event was each allocation live?"
source   = """a lifetime ends at the completed release, at an allocation of the same address, or not
    at all; a release without an allocation ends one that began before the recording"""
grain    = "allocation"
needs    = ["_memory_op"]
optional = ["memory_block"]
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.address]
doc = "address"
[columns.requested_bytes]
unit = "byte"
doc = "requested size"
[columns.born_sequence]
doc = "event of the allocation; NULL if it is older than the recording"
[columns.died_sequence]
doc = "event that ended it; NULL if it is live at the end"
[columns.block_stack_id]
doc = "call stack of the allocation in the final snapshot, if it is older than the recording"
*/
WITH
event AS (
    SELECT trace_id, space, context_id, address, sequence, bytes,
        operation = 'allocate' AS is_allocation
    FROM _memory_op WHERE operation IN ('allocate', 'free') AND address IS NOT NULL
),
neighbour AS (
    SELECT *,
        lag(is_allocation) OVER address_order AS after_allocation,
        lead(sequence) OVER address_order AS next_sequence
    FROM event
    WINDOW address_order AS (
        PARTITION BY trace_id, space, context_id, address ORDER BY sequence
    )
),
block AS (
    SELECT trace_id, hash(process_id, device_id, 'torch', NULL::VARCHAR) AS space, address,
        coalesce(requested_bytes, bytes) AS bytes, stack_id
    FROM memory_block WHERE state LIKE 'active%'
)
SELECT trace_id, space, address, bytes AS requested_bytes,
    if(is_allocation, sequence, NULL) AS born_sequence,
    if(is_allocation, next_sequence, sequence) AS died_sequence,
    NULL::BIGINT AS block_stack_id
FROM neighbour
WHERE is_allocation OR after_allocation IS NOT TRUE
UNION ALL
-- Blocks of the final snapshot whose last event is not an allocation are older.
SELECT b.trace_id, b.space, b.address, b.bytes, NULL, NULL, b.stack_id
FROM block AS b
ANTI JOIN (FROM neighbour WHERE is_allocation AND next_sequence IS NULL) AS n
    ON n.trace_id = b.trace_id AND n.space = b.space AND n.address = b.address
