/*
title    = "Phase at each allocation and release"
question = "In which phase of training does each event happen?"
source   = "as stated by the source, else by the call stack, else as the event before"
grain    = "allocation or release"
needs    = ["_memory_op"]
optional = ["_stack_trait"]
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.sequence]
doc = "position of the event"
[columns.phase]
doc = "setup, forward, backward, recompute, optimizer, other; NULL when unknown"
[columns.run]
doc = "number of the stretch of events of one phase; recompute is a part of backward"
*/
WITH
known AS (
    SELECT e.trace_id, e.space, e.sequence,
        last_value(coalesce(e.phase, s.phase) IGNORE NULLS) OVER (
            PARTITION BY e.trace_id, e.space ORDER BY e.sequence ROWS UNBOUNDED PRECEDING
        ) AS phase
    FROM _memory_op AS e
    LEFT JOIN _stack_trait AS s ON s.trace_id = e.trace_id AND s.stack_id = e.stack_id
    WHERE e.operation IN ('allocate', 'free')
),
changed AS (
    SELECT *,
        if(phase = 'recompute', 'backward', phase)
        IS DISTINCT FROM lag(if(phase = 'recompute', 'backward', phase)) OVER (
            PARTITION BY trace_id, space ORDER BY sequence
        ) AS is_new
    FROM known
)
SELECT trace_id, space, sequence, phase,
    sum(is_new::INTEGER) OVER (
        PARTITION BY trace_id, space ORDER BY sequence ROWS UNBOUNDED PRECEDING
    )::BIGINT AS run
FROM changed
