/*
title    = "Analysis window on the host"
question = "Over which host time are metrics computed?"
source   = "Zhu et al. 2018: metrics are computed over the steady state"
grain    = """iteration in the analysis window of its process; for a process without iterations, the
    whole trace"""
needs    = ["annotation_range", "_annotation_role"]
optional = ["iteration"]
returns = [
    "trace_id", "process_id", "measured_over", "iteration", "thread_id", "start_ns", "end_ns",
    "clock", "period_start_ns", "period_end_ns",
]
[params.window]
doc = """steady: steady state, else all iterations, else the whole trace; iterations: all
    iterations, including warm-up; trace: the whole trace"""
choices = ["steady", "iterations", "trace"]
default = "steady"
[columns]
measured_over = "contents of the window: steady state, all iterations, whole trace"
iteration = "number of the iteration; NULL for the whole trace"
thread_id = "thread that marked the iteration; NULL for the whole trace"
start_ns = """start of the iteration; for the whole trace, start of the first NVTX range of the
    process"""
end_ns = "end of the iteration; for the whole trace, end of the last NVTX range of the process"
clock = "as iteration.clock; NULL for the whole trace"
period_start_ns = "as iteration.period_start_ns; NULL for the whole trace"
period_end_ns = "as iteration.period_end_ns; NULL for the whole trace"
*/
WITH
chosen AS (
    SELECT trace_id, process_id, iteration, thread_id, start_ns, end_ns, clock,
        period_start_ns, period_end_ns,
        CASE getvariable('window')
            WHEN 'trace' THEN false WHEN 'iterations' THEN is_whole ELSE in_window END AS is_chosen,
        CASE getvariable('window')
            WHEN 'iterations' THEN 'all iterations' ELSE measured_over END AS measured_over
    FROM iteration
)
SELECT trace_id, process_id, measured_over, iteration, thread_id, start_ns, end_ns, clock,
    period_start_ns, period_end_ns
FROM chosen WHERE is_chosen
UNION ALL
SELECT r.trace_id, r.process_id, 'whole trace', NULL, NULL, min(r.start_ns), max(r.end_ns),
    NULL, NULL, NULL
FROM annotation_range r
-- Ranges of libraries do not show when the program ran.
SEMI JOIN (SELECT DISTINCT trace_id, domain FROM _annotation_role WHERE NOT is_library) m
    ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain
WHERE r.text IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM chosen c
    WHERE c.is_chosen AND c.trace_id = r.trace_id
      AND c.process_id IS NOT DISTINCT FROM r.process_id)
GROUP BY r.trace_id, r.process_id
