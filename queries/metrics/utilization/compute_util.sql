/*
title    = "GPU compute utilization"
question = "For what share of the time was each GPU busy?"
source   = """Zhu et al. 2018, section 3.4.2: length of the union of GPU operations ÷ elapsed time,
    never their sum"""
grain    = "device used by a process; with by=iteration, one iteration of it"
needs    = ["gpu_op", "device_timeline"]
optional = ["analysis_window", "process", "device"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "device_id", "device", "iteration", "gpu_busy_pct", "kernel_busy_pct",
    "gpu_busy_ns", "kernel_busy_ns", "elapsed_ns", "measured_over", "iterations",
]
[params.by]
doc = "trace: the whole analysis window; iteration: each iteration in the window, by GPU time"
choices = ["trace", "iteration"]
default = "trace"
[columns]
device_id = "device; NULL when unknown"
device = "name of the GPU; NULL when unknown"
iteration = "iteration; NULL for the whole window"
gpu_busy_pct = "time with any kernel, copy, fill or graph ÷ elapsed"
kernel_busy_pct = "time with a kernel or graph ÷ elapsed"
gpu_busy_ns = "time with any GPU operation of the process on the device"
kernel_busy_ns = "time with a kernel or graph"
elapsed_ns = "length of the window or iteration"
measured_over = "steady state, all iterations or whole trace"
iterations = "iterations in the window; NULL for the whole trace"
[[plot]]
kind = "line"
x = "iteration"
y = ["gpu_busy_pct", "kernel_busy_pct"]
series = ["pid", "device_id"]
[[plot]]
kind = "barh"
x = ["trace_id", "device_id", "pid"]
y = ["gpu_busy_pct", "kernel_busy_pct"]
*/
WITH
keyed AS (
    SELECT *,
        CASE WHEN getvariable('by') = 'iteration'
            THEN iteration END AS row_iteration
    FROM device_timeline
),
summed AS (
    SELECT trace_id, process_id, device_id, row_iteration,
        coalesce(sum(duration_ns) FILTER (activity <> 'idle'), 0)::BIGINT AS gpu_busy_ns,
        coalesce(sum(duration_ns) FILTER (kernel_active), 0)::BIGINT AS kernel_busy_ns,
        sum(duration_ns)::BIGINT AS elapsed_ns
    FROM keyed GROUP BY ALL
)
SELECT s.trace_id, p.pid, nullif(s.device_id, -1) AS device_id, d.name AS device,
    s.row_iteration AS iteration,
    100.0 * s.gpu_busy_ns / s.elapsed_ns AS gpu_busy_pct,
    100.0 * s.kernel_busy_ns / s.elapsed_ns AS kernel_busy_pct,
    s.gpu_busy_ns, s.kernel_busy_ns, s.elapsed_ns, w.measured_over, w.iterations
FROM summed s
-- device_timeline stores -1 for an unknown process or device.
JOIN analysis_window w
    ON  w.trace_id = s.trace_id AND coalesce(w.process_id, -1) = s.process_id
    AND coalesce(w.device_id, -1) = s.device_id
LEFT JOIN process p ON p.trace_id = s.trace_id AND p.process_id = s.process_id
LEFT JOIN device d
    ON  d.trace_id = s.trace_id AND d.device_id = s.device_id
    AND (d.process_id IS NULL OR d.process_id = s.process_id)
ORDER BY s.trace_id, p.pid, s.process_id, device_id, iteration
