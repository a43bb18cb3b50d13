/*
title    = "Steps of the analysis window"
question = "From which to which operation does each step last on the GPU?"
source   = """the steps that metrics include (host_window); a step lasts from its first operation to
    that of the next step, or from where the host begins it, to where the host ends it"""
grain    = "step of a process in the analysis window, on its busiest device"
needs    = ["gpu_chain"]
optional = ["host_chain", "host_window", "op_scope", "iteration"]
returns = [
    "trace_id", "process_id", "device_id", "step", "position", "next_position", "begin_position",
    "end_position", "start_ns", "end_ns", "warm_up", "method", "confidence",
]
[columns]
device_id = "device with the most time in kernels; -1 when unknown"
step = "number of the step (iteration.iteration)"
position = "gpu_chain.position of the first operation of the step"
next_position = """gpu_chain.position of the first operation of the next step, even if that one is
    outside the window; NULL for the last step"""
begin_position = "host_chain.position where the host begins the step; NULL inside successive steps"
end_position = "host_chain.position where the host ends the step; NULL inside successive steps"
start_ns = "start of the step (iteration.period_start_ns)"
end_ns = "end of the step (iteration.period_end_ns)"
warm_up = "sign of warm-up (iteration.warm_up); NULL without one"
method = "iteration.method"
confidence = "iteration.confidence"
[advice]
missing = "needs complete steps; {steps}"
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
    SELECT *, lead(position) OVER (PARTITION BY trace_id, process_id ORDER BY iteration)
        AS next_position
    FROM (
        SELECT *, max(start_ns) OVER (
            PARTITION BY trace_id, process_id ORDER BY iteration
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_ns
        FROM first
    )
    WHERE earlier_ns IS NULL OR start_ns > earlier_ns
),
edge AS (
    SELECT trace_id, process_id, name, start_ns, max(position) AS position
    FROM host_chain WHERE kind = 'step' GROUP BY ALL
)
SELECT o.trace_id, o.process_id, o.device_id,
    o.iteration AS step, o.position, o.next_position, b.position AS begin_position,
    e.position AS end_position, w.period_start_ns AS start_ns, w.period_end_ns AS end_ns,
    i.warm_up, i.method, i.confidence
FROM ordered o
JOIN host_window w
    ON  w.trace_id = o.trace_id AND coalesce(w.process_id, -1) = o.process_id
    AND w.iteration = o.iteration
JOIN iteration i
    ON  i.trace_id = o.trace_id AND coalesce(i.process_id, -1) = o.process_id
    AND i.iteration = o.iteration
LEFT JOIN edge b
    ON  b.trace_id = o.trace_id AND b.process_id = o.process_id AND b.name = 'step begins'
    AND b.start_ns = w.period_start_ns
LEFT JOIN edge e
    ON  e.trace_id = o.trace_id AND e.process_id = o.process_id AND e.name = 'step ends'
    AND e.start_ns = w.period_end_ns
WHERE w.period_end_ns IS NOT NULL
