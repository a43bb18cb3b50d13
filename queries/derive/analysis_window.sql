/*
title    = "Analysis window"
question = "Over which stretch of time is a metric of a device computed?"
source   = "Zhu et al. 2018: metrics are taken over stable iterations"
grain    = "one device used by one process"
needs    = ["op_scope"]
optional = ["iteration"]
[params.window]
doc = "stable: the stable iterations, or what comes nearest (all iterations, the whole trace); iterations: all iterations; trace: everything"
choices = ["stable", "iterations", "trace"]
default = "stable"
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.device_id]
doc = "device"
[columns.measured_over]
doc = "what the window is: stable iterations, all iterations, whole trace"
[columns.first_iteration]
doc = "first iteration in it; NULL for the whole trace"
[columns.last_iteration]
doc = "last iteration in it; NULL for the whole trace"
[columns.iterations]
doc = "number of iterations in it; NULL for the whole trace"
[columns.start_ns]
unit = "ns"
doc = "start of the window's first operation on the device"
[columns.end_ns]
unit = "ns"
doc = "start of the first operation of the iteration after the window; after the very last iteration, as long after its first operation as the iteration lasted; for the whole trace the end of the last operation"
[columns.elapsed_ns]
unit = "ns"
doc = "end - start"
*/
WITH
chosen AS (
    SELECT trace_id, process_id, iteration, host_ns,
        CASE coalesce(getvariable('window'), 'stable')
            WHEN 'trace' THEN false
            WHEN 'iterations' THEN true
            ELSE in_window OR NOT bool_or(in_window) OVER process
        END AS is_chosen,
        bool_or(in_window) OVER process
            AND coalesce(getvariable('window'), 'stable') = 'stable' AS is_stable
    FROM iteration
    WINDOW process AS (PARTITION BY trace_id, process_id)
),
on_device AS (
    SELECT trace_id, process_id, device_id, iteration,
        min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM op_scope GROUP BY ALL
),
successive AS (
    SELECT d.*, c.host_ns, c.is_chosen, c.is_stable,
        lead(d.start_ns) OVER (
            PARTITION BY d.trace_id, d.process_id, d.device_id ORDER BY d.iteration) AS next_start_ns
    FROM on_device d
    JOIN chosen c
        ON  c.trace_id = d.trace_id AND c.process_id IS NOT DISTINCT FROM d.process_id
        AND c.iteration = d.iteration
),
iterations AS (
    SELECT trace_id, process_id, device_id,
        CASE WHEN bool_and(is_stable) THEN 'stable iterations' ELSE 'all iterations' END AS measured_over,
        min(iteration) AS first_iteration, max(iteration) AS last_iteration,
        count(*) AS iterations, min(start_ns) AS start_ns,
        max(coalesce(next_start_ns, greatest(end_ns, start_ns + host_ns))) AS end_ns
    FROM successive WHERE is_chosen
    GROUP BY trace_id, process_id, device_id
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
