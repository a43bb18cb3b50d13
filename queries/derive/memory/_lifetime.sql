/*
title    = "Lifetimes of allocations"
question = "From which event to which event was each allocation live?"
source   = """a release without an allocation ends a lifetime that began before the recording;
    blocks of the final snapshot whose last event is not an allocation are as old"""
grain    = "allocation"
needs    = ["_memory_change"]
optional = ["memory_block"]
returns = [
    "trace_id", "space", "address", "requested_bytes", "born_sequence", "died_sequence", "born_ns",
    "died_ns", "died_stack_id", "stack_id", "class", "phase", "allocated_bytes",
]
[columns]
requested_bytes = "requested size"
born_sequence = "event of the allocation; NULL if it is older than the recording"
died_sequence = "event that ended it; NULL if it is live at the end"
born_ns = "time of the allocation; NULL when unknown"
died_ns = "time of the release; NULL when unknown, or if it is live at the end"
died_stack_id = "call stack of the release; NULL without one"
allocated_bytes = "size after rounding of a block of the final snapshot; NULL otherwise"
*/
WITH block AS (
    SELECT trace_id, hash(trace_id, process_id, device_id, 'torch', NULL::VARCHAR) AS space,
        address, coalesce(requested_bytes, bytes) AS bytes, bytes AS allocated_bytes, stack_id
    FROM memory_block WHERE state LIKE 'active%'
)
SELECT trace_id, space, address, bytes AS requested_bytes,
    if(is_allocation, sequence, NULL) AS born_sequence,
    if(is_allocation, next_sequence, sequence) AS died_sequence,
    if(is_allocation, timestamp_ns, NULL) AS born_ns,
    if(is_allocation, next_ns, timestamp_ns) AS died_ns,
    if(is_allocation, next_stack_id, stack_id) AS died_stack_id,
    if(is_allocation, stack_id, NULL) AS stack_id, class,
    if(is_allocation, phase, NULL) AS phase, NULL::BIGINT AS allocated_bytes
FROM _memory_change
WHERE is_allocation OR NOT ends_recorded
UNION ALL BY NAME
SELECT b.trace_id, b.space, b.address, b.bytes AS requested_bytes, b.allocated_bytes, b.stack_id
FROM block AS b
ANTI JOIN (FROM _memory_change WHERE is_allocation AND next_sequence IS NULL) AS n
    ON n.space = b.space AND n.address = b.address
