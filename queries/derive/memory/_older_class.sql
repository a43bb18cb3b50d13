/*
title    = "Classes of allocations older than the recording"
question = "Which of the allocations before the recording are weights and optimizer state?"
source   = """sizes: each weight gradient has one weight, and an optimizer keeps the same number of
    states for each weight, up to two; what the optimizer releases is its state"""
grain    = "allocation older than the recording, with a class"
needs    = ["_allocation_evidence"]
returns = ["trace_id", "space", "address", "died_sequence", "class"]
[columns]
class = "weight, weight_gradient or optimizer_state"
*/
WITH
-- Gradients that are live at the end; if all were released, those of the last backward.
candidate AS (
    SELECT space, requested_bytes, died_sequence IS NULL AS is_live,
        rank() OVER (PARTITION BY space ORDER BY died_sequence IS NULL DESC) AS preferred
    FROM _allocation_evidence
    WHERE stack_class = 'weight_gradient' AND class IS NULL
),
gradient AS (
    SELECT space, requested_bytes, count(*) AS gradients
    FROM candidate WHERE preferred = 1 GROUP BY space, requested_bytes
),
older AS (
    SELECT e.trace_id, e.space, e.address, e.died_sequence, e.died_phase, e.requested_bytes,
        g.gradients,
        row_number() OVER (
            PARTITION BY e.space, e.requested_bytes, e.died_sequence IS NULL ORDER BY e.address
        ) AS number
    FROM _allocation_evidence AS e
    JOIN gradient AS g USING (space, requested_bytes)
    WHERE e.born_sequence IS NULL AND e.stack_class IS NULL AND e.class IS NULL
),
-- 0 states, 1 (momentum) or 2 (Adam).
state AS (
    SELECT space, least(min((blocks - gradients) // gradients), 2) AS states
    FROM (
        SELECT space, requested_bytes, any_value(gradients) AS gradients, count(*) AS blocks
        FROM older WHERE died_sequence IS NULL
        GROUP BY space, requested_bytes
    )
    GROUP BY space
),
aged AS (
    SELECT o.trace_id, o.space, o.address, o.died_sequence,
        CASE
            WHEN o.died_phase = 'optimizer' THEN 'optimizer_state'
            WHEN o.died_sequence IS NOT NULL THEN 'weight_gradient'
            WHEN o.number <= o.gradients THEN 'weight'
            WHEN o.number <= (1 + s.states) * o.gradients THEN 'optimizer_state'
        END AS class
    FROM older AS o
    LEFT JOIN state AS s USING (space)
)
SELECT trace_id, space, address, died_sequence, class FROM aged WHERE class IS NOT NULL
