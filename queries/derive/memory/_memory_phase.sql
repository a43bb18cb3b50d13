/*
title    = "Stretches of one phase"
question = "From which event on does training run forward, backward or in the optimizer?"
source   = """phase of each event as stated by the source, else by its call stack; events
    without one belong to the stretch before; recompute is a part of backward"""
grain    = "stretch of consecutive events of one phase"
needs    = ["_memory_change"]
optional = ["_stack_trait"]
returns = ["trace_id", "space", "run", "phase", "first_sequence", "end_sequence"]
[columns]
run = "number of the stretch, from 1"
phase = "setup, forward, backward, optimizer, other"
first_sequence = "first event"
end_sequence = "last event with a known phase"
*/
WITH
known AS (
    SELECT c.trace_id, c.space, c.sequence, coalesce(c.phase, s.phase) AS phase
    FROM _memory_change AS c
    LEFT JOIN _stack_trait AS s USING (trace_id, stack_id)
),
ordered AS (
    SELECT trace_id, space, sequence,
        if(phase = 'recompute', 'backward', phase) AS phase,
        lag(if(phase = 'recompute', 'backward', phase)) OVER in_order AS before,
        lag(sequence) OVER in_order AS sequence_before,
        max(sequence) OVER (PARTITION BY space) AS last_sequence
    FROM known
    WHERE phase IS NOT NULL
    WINDOW in_order AS (PARTITION BY space ORDER BY sequence)
)
SELECT trace_id, space,
    row_number() OVER in_order AS run,
    phase,
    sequence AS first_sequence,
    coalesce(lead(sequence_before) OVER in_order, last_sequence) AS end_sequence
FROM ordered
WHERE phase IS DISTINCT FROM before
WINDOW in_order AS (PARTITION BY space ORDER BY sequence)
