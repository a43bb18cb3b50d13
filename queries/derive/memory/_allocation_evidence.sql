/*
title    = "Lifetimes with phases and inferred classes"
question = "In which phase does each allocation begin, and what do stack and lifetime make of it?"
source   = """a feature map is made in forward and outlives it; a weight gradient is made in
    backward and outlives it; optimizer state is made in the optimizer and outlives it; scratch
    memory and buffers of collectives are named by their call stacks. Where the release follows a
    failed allocation in the same phase, the failure ended the lifetime: it has the class that most
    other allocations of its call stack have, else that of one that outlives the phase"""
grain    = "allocation"
needs    = ["_lifetime"]
optional = ["_memory_phase", "_stack_trait", "failed_allocation"]
returns = [
    "trace_id", "space", "address", "requested_bytes", "born_sequence", "died_sequence", "born_ns",
    "died_ns", "stack_id", "allocated_bytes", "class", "layer", "phase", "operator", "died_phase",
    "stack_class",
]
[columns]
layer = "innermost module in the call stack; NULL without one"
phase = """phase of the allocation: as stated by the source, else by its call stack, else that of
    the events around it"""
operator = "innermost operator in the call stack; NULL without one"
died_phase = "phase of the release, or zero_grad; NULL when unknown, or if it is live at the end"
stack_class = "class inferred from call stack and lifetime; NULL without evidence"
*/
WITH
born AS (
    SELECT l.*, r.phase AS run_phase, r.run
    FROM _lifetime AS l
    ASOF LEFT JOIN _memory_phase AS r
        ON r.space = l.space AND l.born_sequence >= r.first_sequence
),
lived AS (
    SELECT b.*, r.phase AS died_phase, b.run IS DISTINCT FROM r.run AS outlives_phase
    FROM born AS b
    ASOF LEFT JOIN _memory_phase AS r
        ON r.space = b.space AND b.died_sequence >= r.first_sequence
),
evaluated AS (
    SELECT l.*, coalesce(l.phase, s.phase, l.run_phase) AS born_phase,
        s.is_workspace, s.is_communication, s.is_transfer, s.is_gradient_seed,
        s.operator, s.layer, z.is_zero_grad,
        -- After a failure in a pass, the exception releases what the pass has made.
        NOT l.outlives_phase AND l.died_sequence > f.sequence IS TRUE AS is_cut
    FROM lived AS l
    ASOF LEFT JOIN failed_allocation AS f ON f.space = l.space AND l.born_sequence <= f.sequence
    LEFT JOIN _stack_trait AS s ON s.trace_id = l.trace_id AND s.stack_id = l.stack_id
    LEFT JOIN _stack_trait AS z
        ON z.trace_id = l.trace_id AND z.stack_id = l.died_stack_id AND z.is_zero_grad
),
usual AS (
    SELECT trace_id, stack_id, avg(outlives_phase::INTEGER) > 0.5 AS outlives_phase
    FROM evaluated
    WHERE NOT is_cut AND born_sequence IS NOT NULL AND stack_id IS NOT NULL
        AND stack_id IN (SELECT stack_id FROM evaluated WHERE is_cut)
    GROUP BY trace_id, stack_id
),
decided AS (
    SELECT e.* REPLACE (if(e.is_cut, coalesce(u.outlives_phase, true), e.outlives_phase)
            AS outlives_phase)
    FROM evaluated AS e
    LEFT JOIN usual AS u ON u.trace_id = e.trace_id AND u.stack_id = e.stack_id
)
SELECT trace_id, space, address, requested_bytes, born_sequence, died_sequence, born_ns, died_ns,
    stack_id, allocated_bytes, class, layer, born_phase AS phase, operator,
    if(is_zero_grad, 'zero_grad', died_phase) AS died_phase,
    CASE
        WHEN is_communication THEN 'communication'
        WHEN is_workspace THEN 'workspace'
        WHEN born_phase = 'optimizer'
            THEN if(outlives_phase, 'optimizer_state', 'optimizer_temporary')
        WHEN born_phase = 'backward' AND outlives_phase AND is_gradient_seed IS NOT TRUE
            THEN 'weight_gradient'
        WHEN born_phase = 'backward' THEN 'activation_gradient'
        WHEN born_phase = 'recompute'
            THEN if(died_phase = 'backward', 'feature_map', 'activation_gradient')
        WHEN is_transfer THEN 'input'
        WHEN born_phase = 'forward' THEN if(outlives_phase, 'feature_map', 'temporary')
    END AS stack_class
FROM decided
