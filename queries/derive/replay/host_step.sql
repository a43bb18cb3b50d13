/*
title    = "Steps without a GPU"
question = "How long does each step of a process without GPU operations wait for input?"
source   = """from the start of an iteration to the start of the next; input is the time in ranges
    of the phase data, or without them of PyTorch's DataLoader, on the thread of the iteration"""
grain    = """iteration in the analysis window; for a process of PyTorch without iterations, the
    whole trace"""
needs    = ["_host_span"]
optional = ["_host_loading", "annotation_semantics"]
returns = [
    "trace_id", "process_id", "iteration", "step_ns", "input_ns", "ranges", "evidence", "method",
    "trains", "operator_threads",
]
[columns]
step_ns = "as iteration.period_ns; for the whole trace, its duration"
input_ns = "time of the step in ranges that load input"
ranges = "number of these ranges in the step"
evidence = "data range or DataLoader range; NULL if the process has neither"
trains = "true if the process has ranges of the phase backward, or backward operators"
*/
WITH
kind AS (SELECT DISTINCT trace_id, process_id, evidence FROM _host_loading),
within AS (
    SELECT s.trace_id, s.process_id, s.start_ns AS step_start_ns,
        greatest(l.start_ns, s.start_ns) AS start_ns, least(l.end_ns, s.end_ns) AS end_ns
    FROM _host_span s
    JOIN _host_loading l
        ON  l.trace_id = s.trace_id AND l.process_id = s.process_id
        AND l.thread_id IS NOT DISTINCT FROM s.thread_id
        AND l.start_ns < s.end_ns AND l.end_ns > s.start_ns
),
-- Of ranges inside one another, the outer one counts.
alone AS (
    SELECT *, greatest(start_ns, coalesce(max(end_ns) OVER (
        PARTITION BY trace_id, process_id, step_start_ns ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)) AS begin_ns
    FROM within
),
input AS (
    SELECT trace_id, process_id, step_start_ns, count(*) AS ranges,
        sum(greatest(end_ns - begin_ns, 0)) AS input_ns
    FROM alone
    GROUP BY ALL
),
training AS (
    SELECT DISTINCT trace_id, process_id FROM annotation_semantics
    WHERE phase = 'backward' OR is_backward
)
SELECT s.trace_id, s.process_id, s.iteration, s.end_ns - s.start_ns AS step_ns,
    coalesce(i.input_ns, 0)::BIGINT AS input_ns, coalesce(i.ranges, 0) AS ranges, k.evidence,
    s.method, t.trace_id IS NOT NULL AS trains, s.operator_threads
FROM _host_span s
LEFT JOIN input i
    ON  i.trace_id = s.trace_id AND i.process_id = s.process_id AND i.step_start_ns = s.start_ns
LEFT JOIN kind k ON k.trace_id = s.trace_id AND k.process_id = s.process_id
LEFT JOIN training t ON t.trace_id = s.trace_id AND t.process_id = s.process_id
ORDER BY s.trace_id, s.process_id, s.start_ns
