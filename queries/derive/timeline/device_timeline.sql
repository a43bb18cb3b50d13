/*
title    = "Device timeline"
question = "What did each device do at each moment of the analysis window?"
source   = "a moment is compute if a kernel runs, else communication, else copy, else idle"
grain    = "interval in which a device does one activity for one process"
needs    = ["op_scope", "analysis_window", "host_window", "kernel_class"]
returns = [
    "trace_id", "process_id", "device_id", "iteration", "start_ns", "end_ns", "duration_ns",
    "activity", "is_between", "kernel_active", "communication_active", "copy_active",
]
[columns]
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
iteration = "iteration whose period contains the interval; NULL without iterations"
start_ns = "start"
end_ns = "end"
activity = "compute, communication, copy or idle"
is_between = """true if idle between the last operation of an iteration and the first of the next;
    false without iterations"""
kernel_active = "true if a kernel of any kind runs"
communication_active = "true if a communication kernel runs, alone or with others"
copy_active = "true if a copy or fill runs, alone or with kernels"
[advice]
missing = "needs GPU operations; {timeline}"
gpu_work = "GPU operations"
*/
WITH
bounds AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        start_ns, end_ns, first_iteration IS NOT NULL AS has_iterations
    FROM analysis_window
),
operation AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id, o.iteration, o.start_ns, o.end_ns,
        CASE
            WHEN o.op_kind IN ('memcpy', 'memset') THEN 'copy'
            WHEN c.class = 'communication' THEN 'communication'
            ELSE 'compute'
        END AS activity
    FROM op_scope o
    LEFT JOIN kernel_class c
        ON c.trace_id = o.trace_id AND c.name = o.name AND o.op_kind = 'kernel'
),
clipped AS (
    SELECT o.trace_id, o.process_id, o.device_id, o.activity,
        greatest(o.start_ns, b.start_ns) AS start_ns, least(o.end_ns, b.end_ns) AS end_ns
    FROM operation o JOIN bounds b USING (trace_id, process_id, device_id)
    WHERE o.start_ns < b.end_ns AND o.end_ns > b.start_ns
),
period AS (
    SELECT b.trace_id, b.process_id, b.device_id, h.iteration, h.period_start_ns AS start_ns,
        h.period_end_ns AS end_ns
    FROM bounds b
    JOIN host_window h
        ON h.trace_id = b.trace_id AND coalesce(h.process_id, -1) = b.process_id
    WHERE b.has_iterations AND h.period_end_ns IS NOT NULL
),
-- Times at which the activity can change: start and end of operations, periods and the window.
-- Running sums of the changes give the number of operations of each kind at a moment.
change AS (
    SELECT trace_id, process_id, device_id, start_ns AS at_ns,
        (activity = 'compute')::INTEGER AS compute,
        (activity = 'communication')::INTEGER AS communication,
        (activity = 'copy')::INTEGER AS copy
    FROM clipped
    UNION ALL
    SELECT trace_id, process_id, device_id, end_ns,
        -(activity = 'compute')::INTEGER, -(activity = 'communication')::INTEGER,
        -(activity = 'copy')::INTEGER
    FROM clipped
    UNION ALL
    SELECT trace_id, process_id, device_id, unnest([start_ns, end_ns]), 0, 0, 0 FROM period
    UNION ALL
    SELECT trace_id, process_id, device_id, unnest([start_ns, end_ns]), 0, 0, 0 FROM bounds
),
moment AS (
    SELECT trace_id, process_id, device_id, at_ns, sum(compute) AS compute,
        sum(communication) AS communication, sum(copy) AS copy
    FROM change GROUP BY ALL
),
running AS (
    SELECT trace_id, process_id, device_id, at_ns AS start_ns,
        lead(at_ns) OVER device AS end_ns,
        sum(compute) OVER so_far AS compute, sum(communication) OVER so_far AS communication,
        sum(copy) OVER so_far AS copy
    FROM moment
    WINDOW device AS (PARTITION BY trace_id, process_id, device_id ORDER BY at_ns),
        so_far AS (
            PARTITION BY trace_id, process_id, device_id ORDER BY at_ns ROWS UNBOUNDED PRECEDING)
)
SELECT r.trace_id, r.process_id, r.device_id, p.iteration, r.start_ns, r.end_ns,
    r.end_ns - r.start_ns AS duration_ns,
    CASE WHEN r.compute > 0 THEN 'compute' WHEN r.communication > 0 THEN 'communication'
         WHEN r.copy > 0 THEN 'copy' ELSE 'idle' END AS activity,
    activity = 'idle' AND p.iteration IS NOT NULL
        AND (p.iteration IS DISTINCT FROM lag(p.iteration) OVER device
             OR p.iteration IS DISTINCT FROM lead(p.iteration) OVER device) AS is_between,
    r.compute > 0 OR r.communication > 0 AS kernel_active,
    r.communication > 0 AS communication_active,
    r.copy > 0 AS copy_active
FROM running r
JOIN bounds b USING (trace_id, process_id, device_id)
ASOF LEFT JOIN period p
    ON  p.trace_id = r.trace_id AND p.process_id = r.process_id AND p.device_id = r.device_id
    AND r.start_ns >= p.start_ns
WHERE r.end_ns > r.start_ns
  -- Pauses between iterations are outside the window.
  AND (NOT b.has_iterations OR r.start_ns < p.end_ns)
WINDOW device AS (PARTITION BY r.trace_id, r.process_id, r.device_id ORDER BY r.start_ns)
