/*
title    = "Iterations in a memory history"
question = "After which event does each iteration end?"
source   = """stated by the source; in a snapshot of PyTorch the end of each stretch of events of
    the optimizer that follows a backward pass"""
grain    = "iteration, per memory space"
needs    = ["memory_event"]
optional = ["_memory_phase"]
returns = ["trace_id", "space", "iteration", "end_sequence", "method"]
[columns]
iteration = "number of the iteration, from 0"
end_sequence = "last event of the iteration"
method = "stated or optimizer"
[advice]
missing = """
needs iterations in a memory history; record several of them, with the optimizer step, by
`torch.cuda.memory._record_memory_history()` or `tbd-trace collect --memory`"""
*/
WITH
stated AS (
    SELECT trace_id, hash(trace_id, process_id, device_id, allocator, memory_kind) AS space,
        iteration, max(sequence) AS end_sequence
    FROM memory_event WHERE iteration IS NOT NULL
    GROUP BY ALL
),
-- `zero_grad` at the begin of an iteration is a stretch of the optimizer, too. Without frames of
-- C++ no stretch is known to be backward.
ordered AS (
    SELECT trace_id, space, run, end_sequence, phase,
        lag(phase) OVER (PARTITION BY space ORDER BY run) AS phase_before,
        bool_or(phase = 'backward') OVER (PARTITION BY space) AS knows_backward
    FROM _memory_phase WHERE phase IN ('optimizer', 'backward')
),
inferred AS (
    SELECT trace_id, space,
        row_number() OVER (PARTITION BY space ORDER BY run) - 1 AS iteration, end_sequence
    FROM ordered
    ANTI JOIN stated USING (space)
    WHERE phase = 'optimizer' AND (phase_before = 'backward' OR NOT knows_backward)
)
SELECT trace_id, space, iteration, end_sequence, 'stated' AS method FROM stated
UNION ALL
SELECT trace_id, space, iteration::INTEGER, end_sequence, 'optimizer' FROM inferred
