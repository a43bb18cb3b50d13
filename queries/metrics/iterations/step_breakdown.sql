/*
title    = "Step breakdown"
question = """How is the time of an iteration divided into compute, exposed communication, exposed
    copies and idle time?"""
source   = """disjoint parts: compute, else communication, else copies, else idle; they sum to the
    elapsed time"""
grain    = "device used by a process; with by=iteration, one iteration of it"
needs    = ["gpu_op", "device_timeline"]
optional = ["analysis_window", "process"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "device_id", "iteration", "elapsed_ns", "compute_ns",
    "exposed_communication_ns", "exposed_copy_ns", "idle_ns", "idle_between_ns", "compute_pct",
    "exposed_communication_pct", "exposed_copy_pct", "idle_pct", "communication_ns", "overlap_pct",
    "evidence", "measured_over", "iterations",
]
[params.by]
doc = "trace: the whole analysis window; iteration: each iteration in the window, by GPU time"
choices = ["trace", "iteration"]
default = "trace"
[columns]
device_id = "device; NULL when unknown"
iteration = "iteration; NULL for the whole window"
elapsed_ns = "elapsed time: exactly the sum of the four parts"
compute_ns = "time with a kernel other than communication"
exposed_communication_ns = "time with communication kernels only"
exposed_copy_ns = "time with copies or fills only"
idle_ns = "time without an operation of the process on the device"
idle_between_ns = """part of idle_ns between the last operation of an iteration and the first of the
    next; NULL for the whole trace"""
compute_pct = "compute ÷ elapsed"
exposed_communication_pct = "exposed communication ÷ elapsed"
exposed_copy_pct = "exposed copies ÷ elapsed"
idle_pct = "idle ÷ elapsed"
communication_ns = "time with a communication kernel, exposed or overlapped"
overlap_pct = "communication overlapped by compute ÷ communication; NULL without communication"
evidence = "kernel name: communication kernels are recognised by name"
measured_over = "steady state, all iterations or whole trace"
iterations = "iterations in the window; NULL for the whole trace"
[[plot]]
kind = "stacked_bar"
x = "iteration"
y = ["compute_ns", "exposed_communication_ns", "exposed_copy_ns", "idle_ns"]
panels = ["trace_id", "pid", "device_id"]
[[plot]]
kind = "stacked_barh"
x = ["trace_id", "device_id", "pid"]
y = ["compute_pct", "exposed_communication_pct", "exposed_copy_pct", "idle_pct"]
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
        sum(duration_ns)::BIGINT AS elapsed_ns,
        coalesce(sum(duration_ns) FILTER (activity = 'compute'), 0)::BIGINT AS compute_ns,
        coalesce(sum(duration_ns) FILTER (activity = 'communication'), 0)::BIGINT
            AS exposed_communication_ns,
        coalesce(sum(duration_ns) FILTER (activity = 'copy'), 0)::BIGINT AS exposed_copy_ns,
        coalesce(sum(duration_ns) FILTER (activity = 'idle'), 0)::BIGINT AS idle_ns,
        coalesce(sum(duration_ns) FILTER (is_between), 0)::BIGINT AS between_ns,
        coalesce(sum(duration_ns) FILTER (communication_active), 0)::BIGINT AS communication_ns
    FROM keyed GROUP BY ALL
),
-- The parts are disjoint by construction. If they are not, an error is better than wrong shares.
asserted AS (
    SELECT *,
        CASE WHEN compute_ns + exposed_communication_ns + exposed_copy_ns + idle_ns <> elapsed_ns
             THEN error('step_breakdown: the parts do not sum to the elapsed time') END AS broken
    FROM summed
)
SELECT s.trace_id, p.pid, nullif(s.device_id, -1) AS device_id, s.row_iteration AS iteration,
    s.elapsed_ns, s.compute_ns, s.exposed_communication_ns, s.exposed_copy_ns, s.idle_ns,
    CASE WHEN w.iterations IS NOT NULL THEN s.between_ns END AS idle_between_ns,
    100.0 * s.compute_ns / s.elapsed_ns AS compute_pct,
    100.0 * s.exposed_communication_ns / s.elapsed_ns AS exposed_communication_pct,
    100.0 * s.exposed_copy_ns / s.elapsed_ns AS exposed_copy_pct,
    100.0 * s.idle_ns / s.elapsed_ns AS idle_pct,
    s.communication_ns,
    100.0 * (s.communication_ns - s.exposed_communication_ns)
        / nullif(s.communication_ns, 0) AS overlap_pct,
    -- Reading broken keeps the optimizer from removing the check.
    coalesce(s.broken, 'kernel name') AS evidence, w.measured_over, w.iterations
FROM asserted s
JOIN analysis_window w
    ON  w.trace_id = s.trace_id AND coalesce(w.process_id, -1) = s.process_id
    AND coalesce(w.device_id, -1) = s.device_id
LEFT JOIN process p ON p.trace_id = s.trace_id AND p.process_id = s.process_id
ORDER BY s.trace_id, p.pid, s.process_id, device_id, iteration
