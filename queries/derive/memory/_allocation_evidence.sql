/*
title    = "Phases and traits of each allocation of PyTorch"
question = "In which phases does an allocation begin and end, and what shows its call stack?"
grain    = "allocation"
needs    = ["_lifetime", "_memory_op"]
optional = ["_memory_phase", "_stack_trait", "peak_memory"]
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
[columns.born_phase]
doc = "phase of the allocation; NULL when unknown"
[columns.died_phase]
doc = "phase of the release; NULL when unknown, or if it is live at the end"
[columns.stack_id]
doc = "call stack of the allocation; NULL without one"
[columns.outlives_phase]
doc = "true if the release is not in the same stretch of one phase"
[columns.is_workspace]
doc = "as _stack_trait"
[columns.is_communication]
doc = "as _stack_trait"
[columns.is_transfer]
doc = "as _stack_trait"
[columns.is_gradient_seed]
doc = "as _stack_trait"
[columns.operator]
doc = "innermost operator"
[columns.layer]
doc = "innermost module, by its file"
*/
WITH lived AS (
    SELECT l.trace_id, l.space, l.address, l.requested_bytes, l.born_sequence, l.died_sequence,
        coalesce(l.block_stack_id, e.stack_id) AS stack_id,
        b.phase AS born_phase, b.run AS born_run,
        d.phase AS died_phase, d.run AS died_run
    FROM _lifetime AS l
    LEFT JOIN _memory_op AS e
        ON e.trace_id = l.trace_id AND e.space = l.space AND e.sequence = l.born_sequence
    LEFT JOIN _memory_phase AS b
        ON b.trace_id = l.trace_id AND b.space = l.space AND b.sequence = l.born_sequence
    LEFT JOIN _memory_phase AS d
        ON d.trace_id = l.trace_id AND d.space = l.space AND d.sequence = l.died_sequence
)
SELECT l.trace_id, l.space, l.address, l.requested_bytes, l.born_sequence, l.died_sequence,
    coalesce(l.born_phase, s.phase) AS born_phase, l.died_phase, l.stack_id,
    l.born_run IS DISTINCT FROM l.died_run AS outlives_phase,
    coalesce(s.is_workspace, false) AS is_workspace,
    coalesce(s.is_communication, false) AS is_communication,
    coalesce(s.is_transfer, false) AS is_transfer,
    coalesce(s.is_gradient_seed, false) AS is_gradient_seed,
    s.operator, s.layer
FROM lived AS l
LEFT JOIN _stack_trait AS s ON s.trace_id = l.trace_id AND s.stack_id = l.stack_id
