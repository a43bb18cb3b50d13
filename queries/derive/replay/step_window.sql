/*
title    = "Steps of the captured loop"
question = "From which to which operation does each step last on the GPU?"
source   = """all steps count, including slow ones: a window of typical steps hides stalls. A step
    lasts from its first operation to that of the next step"""
grain    = "step of a process, on its busiest device"
needs    = ["gpu_chain"]
optional = ["iteration", "op_scope"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.device_id]
doc = "device with the most time in kernels; -1 when unknown"
[columns.step]
doc = "number of the step, from 0"
[columns.position]
doc = "gpu_chain.position of the first operation of the step"
[columns.next_position]
doc = "gpu_chain.position of the first operation of the next step"
[columns.start_ns]
unit = "ns"
doc = "start of the step on the GPU"
[columns.end_ns]
unit = "ns"
doc = "start of the next step"
[columns.warm_up]
doc = "sign of warm-up (iteration.warm_up); NULL without one"
[columns.method]
doc = "iteration.method"
[columns.confidence]
doc = "iteration.confidence"
[advice]
missing = "needs complete steps; record more of them, or mark steps with NVTX"
*/
WITH
busiest AS (
    SELECT trace_id, process_id, device_id
    FROM gpu_chain
    GROUP BY trace_id, process_id, device_id
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id ORDER BY sum(end_ns - start_ns) DESC, device_id) = 1
),
first AS (
    SELECT g.trace_id, g.process_id, g.device_id, s.iteration,
        min(g.position) AS position, min(g.start_ns) AS start_ns
    FROM gpu_chain g
    JOIN busiest b USING (trace_id, process_id, device_id)
    JOIN op_scope s
        ON s.trace_id = g.trace_id AND s.op_kind = g.op_kind AND s.op_id = g.op_id
    WHERE s.iteration IS NOT NULL
    GROUP BY ALL
),
-- Ranges of iterations that overlap on the GPU would give steps of negative length.
ordered AS (
    SELECT *
    FROM (
        SELECT *, max(start_ns) OVER (
            PARTITION BY trace_id, process_id ORDER BY iteration
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_ns
        FROM first
    )
    WHERE earlier_ns IS NULL OR start_ns > earlier_ns
)
SELECT o.trace_id, o.process_id, o.device_id,
    row_number() OVER process - 1 AS step,
    o.position, lead(o.position) OVER process AS next_position, o.start_ns,
    lead(o.start_ns) OVER process AS end_ns, i.warm_up, i.method, i.confidence
FROM ordered o
JOIN iteration i
    ON  i.trace_id = o.trace_id AND coalesce(i.process_id, -1) = o.process_id
    AND i.iteration = o.iteration
WINDOW process AS (PARTITION BY o.trace_id, o.process_id ORDER BY o.iteration)
QUALIFY next_position IS NOT NULL
