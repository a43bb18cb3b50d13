/*
title    = "Classes inferred from call stacks and lifetimes"
question = "Which class does an allocation of PyTorch have, if the source states none?"
source   = """call stack of the allocation, phases of its begin and end; for allocations older than
    the recording, sizes: each weight gradient has one weight, and an optimizer keeps up to two
    states of the same size"""
grain    = "allocation"
needs    = ["_allocation_evidence"]
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.address]
doc = "address"
[columns.born_sequence]
doc = "event of the allocation; NULL if it is older than the recording"
[columns.class]
doc = "class; unknown without evidence"
[columns.evidence]
doc = "stack (call stacks, lifetimes and sizes) or none"
*/
WITH
by_stack AS (
    SELECT *,
        CASE
            WHEN is_communication THEN 'communication'
            WHEN is_workspace THEN 'workspace'
            WHEN born_phase = 'optimizer'
                THEN if(outlives_phase, 'optimizer_state', 'optimizer_temporary')
            WHEN born_phase = 'backward' AND outlives_phase AND NOT is_gradient_seed
                THEN 'weight_gradient'
            WHEN born_phase = 'backward' THEN 'activation_gradient'
            WHEN born_phase = 'recompute' AND died_phase IN ('backward', 'recompute')
                THEN 'feature_map'
            WHEN born_phase = 'recompute' THEN 'activation_gradient'
            WHEN is_transfer THEN 'input'
            WHEN born_phase = 'forward'
                THEN if(outlives_phase, 'feature_map', 'temporary')
        END AS class
    FROM _allocation_evidence
),
gradient AS (
    -- One gradient per weight, however many steps were recorded: those of the last backward.
    SELECT trace_id, space, requested_bytes, max(live) AS gradients
    FROM (
        SELECT trace_id, space, requested_bytes, count(*) AS live
        FROM by_stack
        WHERE class = 'weight_gradient' AND died_sequence IS NULL
        GROUP BY trace_id, space, requested_bytes
        UNION ALL
        SELECT trace_id, space, requested_bytes, count(*)
        FROM by_stack
        WHERE class = 'weight_gradient' AND died_sequence IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM by_stack AS other
                WHERE other.trace_id = by_stack.trace_id AND other.space = by_stack.space
                    AND other.class = 'weight_gradient' AND other.died_sequence IS NULL
            )
        GROUP BY trace_id, space, requested_bytes
    )
    GROUP BY trace_id, space, requested_bytes
),
older AS (
    SELECT b.*, coalesce(g.gradients, 0) AS gradients,
        b.died_phase = 'optimizer' AS died_in_optimizer,
        row_number() OVER (
            PARTITION BY b.trace_id, b.space, b.requested_bytes, b.died_sequence IS NULL
            ORDER BY b.address
        ) AS number
    FROM by_stack AS b
    LEFT JOIN gradient AS g USING (trace_id, space, requested_bytes)
    WHERE b.born_sequence IS NULL AND b.class IS NULL
),
-- An optimizer keeps the same number of states for each weight: 0, 1 (momentum) or 2 (Adam).
state AS (
    SELECT trace_id, space, least(min((blocks - gradients) // gradients), 2) AS states
    FROM (
        SELECT trace_id, space, requested_bytes, any_value(gradients) AS gradients,
            count(*) AS blocks
        FROM older WHERE died_sequence IS NULL AND gradients > 0
        GROUP BY trace_id, space, requested_bytes
    )
    GROUP BY trace_id, space
),
aged AS (
    SELECT o.trace_id, o.space, o.address,
        CASE
            WHEN o.gradients = 0 THEN NULL
            WHEN o.died_in_optimizer THEN 'optimizer_state'
            WHEN o.died_sequence IS NOT NULL THEN 'weight_gradient'
            WHEN o.number <= o.gradients THEN 'weight'
            WHEN o.number <= (1 + s.states) * o.gradients THEN 'optimizer_state'
        END AS class
    FROM older AS o
    LEFT JOIN state AS s USING (trace_id, space)
)
SELECT b.trace_id, b.space, b.address, b.born_sequence,
    coalesce(b.class, a.class, 'unknown') AS class,
    if(coalesce(b.class, a.class) IS NULL, 'none', 'stack') AS evidence
FROM by_stack AS b
LEFT JOIN aged AS a
    ON a.trace_id = b.trace_id AND a.space = b.space AND a.address = b.address
    AND b.born_sequence IS NULL
