/*
title    = "Device timeline"
question = "What did each device do at each moment of the analysis window?"
source   = "a moment is compute if a kernel runs, else communication, else copy, else idle"
grain    = "interval in which a device does one activity for one process"
needs    = ["op_scope", "analysis_window", "kernel_class"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.device_id]
doc = "device; -1 when unknown"
[columns.iteration]
doc = """iteration by GPU time: from its first operation on the device to that of the next
    iteration; NULL without iterations"""
[columns.start_ns]
unit = "ns"
doc = "start"
[columns.end_ns]
unit = "ns"
doc = "end"
[columns.duration_ns]
unit = "ns"
doc = "end - start"
[columns.activity]
doc = "compute, communication, copy or idle"
[columns.is_between]
doc = """true if idle between the last operation of an iteration and the first of the next; false
    without iterations"""
[columns.kernel_active]
doc = "true if a kernel of any kind runs"
[columns.communication_active]
doc = "true if a communication kernel runs, alone or with others"
[columns.copy_active]
doc = "true if a copy or fill runs, alone or with kernels"
[advice]
missing = "needs GPU operations; collect a timeline with `nsys profile -t cuda,nvtx,cudnn,cublas`"
gpu_work = "GPU operations"
*/
WITH
bounds AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        start_ns, end_ns, first_iteration, last_iteration
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
iteration_start AS (
    SELECT o.trace_id, o.process_id, o.device_id, o.iteration, min(o.start_ns) AS start_ns
    FROM operation o JOIN bounds b USING (trace_id, process_id, device_id)
    WHERE o.iteration BETWEEN b.first_iteration AND b.last_iteration
    GROUP BY ALL
),
-- Times at which the activity can change: start and end of operations, iterations and the window.
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
    SELECT trace_id, process_id, device_id, start_ns, 0, 0, 0 FROM iteration_start
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
SELECT r.trace_id, r.process_id, r.device_id, i.iteration, r.start_ns, r.end_ns,
    r.end_ns - r.start_ns AS duration_ns,
    CASE WHEN r.compute > 0 THEN 'compute' WHEN r.communication > 0 THEN 'communication'
         WHEN r.copy > 0 THEN 'copy' ELSE 'idle' END AS activity,
    activity = 'idle' AND i.iteration IS DISTINCT FROM lead(i.iteration) OVER (
        PARTITION BY r.trace_id, r.process_id, r.device_id ORDER BY r.start_ns) AS is_between,
    r.compute > 0 OR r.communication > 0 AS kernel_active,
    r.communication > 0 AS communication_active,
    r.copy > 0 AS copy_active
FROM running r
ASOF LEFT JOIN iteration_start i
    ON  i.trace_id = r.trace_id AND i.process_id = r.process_id AND i.device_id = r.device_id
    AND r.start_ns >= i.start_ns
WHERE r.end_ns > r.start_ns
