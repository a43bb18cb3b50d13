/*
title    = "Steps without a GPU"
question = "How long does each step of a process without GPU operations wait for input?"
source   = """from the start of an iteration to the start of the next; input is the time in ranges
    of the phase data, or without them of PyTorch's DataLoader, on the thread of the iteration"""
grain    = "iteration in the analysis window"
needs    = ["iteration", "host_window", "annotation_semantics"]
optional = ["annotation_range", "gpu_op"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.iteration]
doc = "as iteration.iteration"
[columns.step_ns]
unit = "ns"
doc = "as iteration.period_ns"
[columns.input_ns]
unit = "ns"
doc = "time of the step in ranges that load input"
[columns.ranges]
doc = "number of these ranges in the step"
[columns.evidence]
doc = "data range or DataLoader range; NULL if the process has neither"
[columns.method]
doc = "as iteration.method"
[columns.trains]
doc = "true if the process has ranges of the phase backward"
*/
WITH
step AS (
    SELECT i.trace_id, i.process_id, i.thread_id, i.iteration, i.start_ns, i.period_ns, i.method
    FROM iteration i
    SEMI JOIN host_window w
        ON  w.trace_id = i.trace_id AND w.process_id = i.process_id AND w.iteration = i.iteration
    ANTI JOIN gpu_op g ON g.trace_id = i.trace_id AND g.process_id = i.process_id
    WHERE i.period_ns IS NOT NULL AND i.clock = 'host'
),
loading AS (
    SELECT trace_id, process_id, thread_id, start_ns, end_ns, 'data range' AS evidence
    FROM annotation_semantics
    WHERE phase = 'data'
    UNION ALL
    SELECT trace_id, process_id, thread_id, start_ns, end_ns, 'DataLoader range'
    FROM annotation_range
    WHERE regexp_matches(text, '^enumerate\(DataLoader\)|DataLoader.*__next__')
),
-- Ranges of the DataLoader are inside those of the phase data.
kind AS (SELECT trace_id, process_id, max(evidence) AS evidence FROM loading GROUP BY ALL),
within AS (
    SELECT s.trace_id, s.process_id, s.iteration,
        greatest(l.start_ns, s.start_ns) AS start_ns,
        least(l.end_ns, s.start_ns + s.period_ns) AS end_ns
    FROM step s
    JOIN kind k USING (trace_id, process_id)
    JOIN loading l
        ON  l.trace_id = s.trace_id AND l.process_id = s.process_id
        AND l.thread_id IS NOT DISTINCT FROM s.thread_id AND l.evidence = k.evidence
        AND l.start_ns < s.start_ns + s.period_ns AND l.end_ns > s.start_ns
),
-- Of ranges inside one another, the outer one counts.
alone AS (
    SELECT *, greatest(start_ns, coalesce(max(end_ns) OVER (
        PARTITION BY trace_id, process_id, iteration ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)) AS begin_ns
    FROM within
),
input AS (
    SELECT trace_id, process_id, iteration, count(*) AS ranges,
        sum(greatest(end_ns - begin_ns, 0)) AS input_ns
    FROM alone
    GROUP BY ALL
),
training AS (
    SELECT DISTINCT trace_id, process_id FROM annotation_semantics WHERE phase = 'backward'
)
SELECT s.trace_id, s.process_id, s.iteration, s.period_ns AS step_ns,
    coalesce(i.input_ns, 0)::BIGINT AS input_ns, coalesce(i.ranges, 0) AS ranges, k.evidence,
    s.method, t.trace_id IS NOT NULL AS trains
FROM step s
LEFT JOIN input i USING (trace_id, process_id, iteration)
LEFT JOIN kind k USING (trace_id, process_id)
LEFT JOIN training t USING (trace_id, process_id)
ORDER BY s.trace_id, s.process_id, s.iteration
