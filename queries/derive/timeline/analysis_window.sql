/*
title    = "Analysis window"
question = "Over which time are the metrics of a device computed?"
source   = "Zhu et al. 2018: metrics are computed over the steady state"
grain    = "device used by a process"
needs    = ["op_scope"]
optional = ["host_window"]
returns = [
    "trace_id", "process_id", "device_id", "measured_over", "first_iteration", "last_iteration",
    "iterations", "start_ns", "end_ns", "elapsed_ns",
]
[columns]
first_iteration = "first iteration of the window; NULL for the whole trace"
last_iteration = "last iteration of the window; NULL for the whole trace"
iterations = "number of iterations in the window; NULL for the whole trace"
start_ns = """start of the period of the first iteration (iteration.period_start_ns); for the whole
    trace, start of the first operation on the device"""
end_ns = """end of the period of the last iteration; for the whole trace, end of the last operation
    on the device"""
elapsed_ns = """sum of the periods of the iterations, less than end − start if the window leaves out
    pauses; for the whole trace, end − start"""
*/
WITH
whole AS (
    SELECT trace_id, process_id, device_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM op_scope GROUP BY ALL
),
iterations AS (
    SELECT trace_id, process_id, any_value(measured_over) AS measured_over,
        min(iteration) AS first_iteration, max(iteration) AS last_iteration,
        count(*) AS iterations, min(period_start_ns) AS start_ns, max(period_end_ns) AS end_ns,
        sum(period_end_ns - period_start_ns)::BIGINT AS elapsed_ns
    FROM host_window WHERE period_end_ns IS NOT NULL
    GROUP BY ALL
)
SELECT w.trace_id, w.process_id, w.device_id,
    coalesce(i.measured_over, 'whole trace') AS measured_over,
    i.first_iteration, i.last_iteration, i.iterations,
    coalesce(i.start_ns, w.start_ns) AS start_ns,
    coalesce(i.end_ns, w.end_ns) AS end_ns,
    coalesce(i.elapsed_ns, w.end_ns - w.start_ns) AS elapsed_ns
FROM whole w
LEFT JOIN iterations i
    ON i.trace_id = w.trace_id AND i.process_id IS NOT DISTINCT FROM w.process_id
