/*
title    = "Allocations"
question = "How long did each allocation live, and which class do its bytes have?"
source   = """lifetimes by address in the order of the events; class as stated by the framework,
    else inferred from call stacks, lifetimes and sizes"""
grain    = "allocation"
needs    = ["_allocation_evidence", "memory_space", "memory_event"]
optional = ["_stated_class", "_older_class"]
at_ingest = "memory_event"
returns = [
    "trace_id", "space", "process_id", "device_id", "stream_id", "allocator", "memory_kind",
    "address", "requested_bytes", "allocated_bytes", "born_sequence", "died_sequence", "born_ns",
    "died_ns", "iteration", "phase", "layer", "class", "group_name", "recomputed", "operator",
    "dtype", "shape", "stack_id", "evidence",
]
[columns]
stream_id = "CUDA stream; NULL when unknown"
address = "address; NULL for bytes of which none is known"
allocated_bytes = """size after rounding: as recorded; for PyTorch's allocator the next multiple of
    512 bytes, the least that it takes"""
iteration = "recorded iteration, from 0; NULL when unknown or before the first"
phase = "setup, forward, backward, recompute, optimizer, other; NULL when unknown"
layer = "layer; NULL when unknown"
class = """weight, weight_gradient, feature_map, activation_gradient, workspace, temporary,
    optimizer_state, optimizer_temporary, buffer, input, communication, unknown"""
group_name = "weights, weight gradients, feature maps, workspace, dynamic, unknown, untracked"
recomputed = "true if it was made again during backward (checkpointing)"
operator = "operator; NULL when unknown"
dtype = "data type; NULL when unknown"
shape = "shape; NULL when unknown"
stack_id = "call stack of the allocation; NULL without one"
evidence = """collector (the framework states the class), stack (inferred from call stacks,
    lifetimes and sizes), none"""
[advice]
missing = "needs allocations; {memory}"
*/
WITH known AS (
    SELECT e.* REPLACE (coalesce(e.allocated_bytes, v.allocated_bytes) AS allocated_bytes,
            coalesce(c.layer, v.layer, e.layer) AS layer,
            coalesce(v.operator, e.operator) AS operator),
        v.stream_id, v.dtype, v.shape, if(e.born_sequence IS NULL, NULL, v.iteration) AS iteration,
        coalesce(c.class, e.class) AS stated_class,
        coalesce(e.stack_class, o.class) AS inferred_class
    FROM _allocation_evidence AS e
    LEFT JOIN memory_event AS v
        ON v.trace_id = e.trace_id AND v.sequence = coalesce(e.born_sequence, e.died_sequence)
        -- Each device counts its events from 0.
        AND hash(v.trace_id, v.process_id, v.device_id, v.allocator, v.memory_kind) = e.space
    LEFT JOIN _stated_class AS c
        ON c.space = e.space AND c.born_sequence = e.born_sequence
    LEFT JOIN _older_class AS o
        ON o.space = e.space AND o.address = e.address AND e.born_sequence IS NULL
        AND o.died_sequence IS NOT DISTINCT FROM e.died_sequence
    UNION ALL BY NAME
    SELECT trace_id, space, unexplained_bytes AS requested_bytes
    FROM memory_space WHERE unexplained_bytes > 0
)
SELECT k.trace_id, k.space, s.process_id, s.device_id, k.stream_id, s.allocator, s.memory_kind,
    k.address, k.requested_bytes,
    coalesce(
        k.allocated_bytes,
        if(s.allocator = 'torch', greatest((k.requested_bytes + 511) // 512 * 512, 512), NULL)
    ) AS allocated_bytes,
    k.born_sequence, k.died_sequence, k.born_ns, k.died_ns, k.iteration, k.phase, k.layer,
    k.known_class AS class,
    CASE
        WHEN k.known_class = 'weight' THEN 'weights'
        WHEN k.known_class = 'weight_gradient' THEN 'weight gradients'
        WHEN k.known_class IN ('feature_map', 'activation_gradient') THEN 'feature maps'
        WHEN k.known_class IN ('workspace', 'temporary') THEN 'workspace'
        WHEN k.known_class IN ('unknown', 'untracked') THEN k.known_class
        ELSE 'dynamic'
    END AS group_name,
    k.phase IS NOT DISTINCT FROM 'recompute' AS recomputed,
    k.operator, k.dtype, k.shape, k.stack_id,
    CASE
        WHEN k.stated_class IS NOT NULL THEN 'collector'
        WHEN k.inferred_class IS NOT NULL THEN 'stack'
        ELSE 'none'
    END AS evidence
FROM (
    SELECT *, coalesce(stated_class, inferred_class, 'unknown') AS known_class FROM known
) AS k
JOIN memory_space AS s USING (space)
