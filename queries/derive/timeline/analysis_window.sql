/*
title    = "Analysis window"
question = "Over which time are the metrics of a device computed?"
source   = "Zhu et al. 2018: metrics are computed over the steady state"
grain    = "device used by a process"
needs    = ["op_scope"]
optional = ["host_window"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.device_id]
doc = "device"
[columns.measured_over]
doc = "contents of the window: steady state, all iterations, whole trace"
[columns.first_iteration]
doc = "first iteration of the window; NULL for the whole trace"
[columns.last_iteration]
doc = "last iteration of the window; NULL for the whole trace"
[columns.iterations]
doc = "number of iterations in the window; NULL for the whole trace"
[columns.start_ns]
unit = "ns"
doc = "start of the first operation of the window on the device"
[columns.end_ns]
unit = "ns"
doc = """start of the first operation of the iteration after the window; after the last recorded
    iteration, its first operation + the length of the iteration; for the whole trace, end of the
    last operation"""
[columns.elapsed_ns]
unit = "ns"
doc = "end - start"
*/
WITH
on_device AS (
    SELECT trace_id, process_id, device_id, iteration,
        min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM op_scope GROUP BY ALL
),
successive AS (
    SELECT *, lead(start_ns) OVER (
        PARTITION BY trace_id, process_id, device_id ORDER BY iteration) AS next_start_ns
    FROM on_device WHERE iteration IS NOT NULL
),
iterations AS (
    SELECT d.trace_id, d.process_id, d.device_id, any_value(w.measured_over) AS measured_over,
        min(d.iteration) AS first_iteration, max(d.iteration) AS last_iteration,
        count(*) AS iterations, min(d.start_ns) AS start_ns,
        max(coalesce(d.next_start_ns, greatest(d.end_ns, d.start_ns + w.end_ns - w.start_ns)))
            AS end_ns
    FROM successive d
    JOIN host_window w
        ON  w.trace_id = d.trace_id AND w.process_id IS NOT DISTINCT FROM d.process_id
        AND w.iteration = d.iteration
    GROUP BY d.trace_id, d.process_id, d.device_id
),
whole AS (
    SELECT trace_id, process_id, device_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM op_scope GROUP BY ALL
)
SELECT w.trace_id, w.process_id, w.device_id,
    coalesce(i.measured_over, 'whole trace') AS measured_over,
    i.first_iteration, i.last_iteration, i.iterations,
    coalesce(i.start_ns, w.start_ns) AS start_ns,
    coalesce(i.end_ns, w.end_ns) AS end_ns,
    coalesce(i.end_ns, w.end_ns) - coalesce(i.start_ns, w.start_ns) AS elapsed_ns
FROM whole w
LEFT JOIN iterations i
    ON  i.trace_id = w.trace_id AND i.process_id IS NOT DISTINCT FROM w.process_id
    AND i.device_id IS NOT DISTINCT FROM w.device_id
