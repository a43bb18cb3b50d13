/*
title    = "Launches by time"
question = "Which iteration, and which of its phases, was active when another thread launched?"
source   = """the thread of the iteration waits for other threads, as for the autograd thread
    between its forward pass and its next mark"""
grain    = """launch outside the ranges of iterations, made between the start and the end of an
    iteration"""
needs    = ["_launch_attribution"]
optional = ["annotation_semantics", "_iteration_boundary"]
returns = ["trace_id", "api_call_id", "iteration", "evidence", "phase"]
[columns]
iteration = "number of the iteration"
evidence = "time (the iteration is marked) or anchor kernel (_iteration_anchor found it)"
phase = """phase of the iteration's thread at this time; NULL for launches of that thread, and when
    unknown"""
*/
WITH
-- Of overlapping iterations, the last one started owns a launch, until all have ended.
boundary AS (
    SELECT trace_id, process_id, iteration, start_ns,
        max(end_ns) OVER (PARTITION BY trace_id, process_id ORDER BY iteration) AS end_ns,
        CASE method WHEN 'anchor kernel' THEN method ELSE 'time' END AS evidence
    FROM _iteration_boundary WHERE NOT is_gpu_time
),
phase_range AS (
    SELECT m.trace_id, m.process_id, m.thread_id, m.phase, m.start_ns, m.end_ns
    FROM annotation_semantics m
    JOIN (SELECT DISTINCT trace_id, process_id, thread_id FROM _iteration_boundary) d
        ON  d.trace_id = m.trace_id AND d.process_id IS NOT DISTINCT FROM m.process_id
        AND d.thread_id IS NOT DISTINCT FROM m.thread_id
    WHERE m.phase IS NOT NULL
)
SELECT i.trace_id, i.api_call_id, i.iteration, i.evidence,
    -- After its forward pass, a thread that marks nothing waits for the backward pass.
    CASE
        WHEN (i.thread_id <> p.thread_id) IS NOT TRUE THEN NULL
        WHEN i.start_ns < p.end_ns THEN p.phase
        WHEN p.phase IN ('forward', 'loss') AND p.start_ns >= i.iteration_start_ns THEN 'backward'
    END AS phase
FROM (
    SELECT e.trace_id, e.api_call_id, e.process_id, e.thread_id, e.start_ns, b.iteration,
        b.evidence, b.start_ns AS iteration_start_ns
    FROM (FROM _launch_attribution WHERE iteration IS NULL) e
    ASOF JOIN boundary b
        ON  b.trace_id = e.trace_id AND b.process_id IS NOT DISTINCT FROM e.process_id
        AND e.start_ns >= b.start_ns
    WHERE e.start_ns < b.end_ns
) i
ASOF LEFT JOIN phase_range p
    ON  p.trace_id = i.trace_id AND p.process_id IS NOT DISTINCT FROM i.process_id
    AND i.start_ns >= p.start_ns
