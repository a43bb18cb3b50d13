/*
title    = "Causes of idle time"
question = "While the GPU was idle, why had the next operation not begun?"
source   = """idle time of step_breakdown, divided among the causes of tbd-trace why; the disjoint
    parts sum to the idle time"""
grain    = "cause, per device used by a process"
needs    = ["gpu_op", "device_timeline"]
optional = ["idle_interval_cause", "analysis_window", "process", "clock_check", "step_causes"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "device_id", "cause", "title", "idle_ns", "between_ns", "share_pct",
    "elapsed_pct", "gaps", "longest_ns", "evidence", "measured_over", "iterations", "reason",
]
[columns]
device_id = "device; NULL when unknown"
cause = """input_pipeline (the launching thread waits for input), host_stalls (pauses far longer
    than usual at their place), host (work between calls, and short calls), warm_up (a launch or
    other call above 1 ms), synchronization or memory_allocation (inside such a call),
    launch_latency (a launch has begun, its operation not yet), unknown (see reason)"""
title = "the cause in words (step_causes)"
idle_ns = "idle time with this cause"
between_ns = """part between the last operation of an iteration and the first of the next; NULL for
    the whole trace"""
share_pct = "idle_ns ÷ idle time of the device"
elapsed_pct = "idle_ns ÷ length of the window; on the device that tbd-trace why shows, its share"
gaps = "idle gaps with this cause"
longest_ns = "longest uninterrupted interval with this cause"
evidence = "estimated: what the launching thread does not always prove the cause"
measured_over = "steady state, all iterations or whole trace"
iterations = "iterations in the window; NULL for the whole trace"
reason = """why a cause is unknown: the launch, or what delayed the operation, is missing from the
    trace, or GPU and host clocks do not agree; NULL for other causes"""
[plot]
kind = "barh"
x = "title"
y = ["idle_ns"]
series = ["device_id", "pid"]
*/
SELECT c.trace_id, p.pid, nullif(c.device_id, -1) AS device_id, c.cause,
    any_value(s.title) AS title, sum(c.duration_ns)::BIGINT AS idle_ns,
    -- Without iterations, there is no time between them: NULL instead of 0.
    CASE WHEN any_value(w.iterations) IS NOT NULL
         THEN coalesce(sum(c.duration_ns) FILTER (c.is_between), 0)::BIGINT END AS between_ns,
    100.0 * sum(c.duration_ns) / sum(sum(c.duration_ns)) OVER (
        PARTITION BY c.trace_id, c.process_id, c.device_id) AS share_pct,
    100.0 * sum(c.duration_ns) / any_value(w.elapsed_ns) AS elapsed_pct,
    count(*) AS gaps, max(c.longest_ns) AS longest_ns,
    'estimated' AS evidence, any_value(w.measured_over) AS measured_over,
    any_value(w.iterations) AS iterations,
    CASE WHEN c.cause = 'unknown'
        THEN coalesce(any_value(k.reason),
            CASE WHEN any_value(k.launches) > 0
                 THEN 'the trace has no record of the launch, or of what delayed the operation'
                 ELSE 'the trace has no record of the launch' END)
    END AS reason
FROM idle_interval_cause c
JOIN step_causes s USING (cause)
-- idle_interval_cause stores -1 for an unknown process or device.
JOIN analysis_window w
    ON  w.trace_id = c.trace_id AND coalesce(w.process_id, -1) = c.process_id
    AND coalesce(w.device_id, -1) = c.device_id
LEFT JOIN clock_check k
    ON  k.trace_id = c.trace_id AND coalesce(k.process_id, -1) = c.process_id
    AND coalesce(k.device_id, -1) = c.device_id
LEFT JOIN process p ON p.trace_id = c.trace_id AND p.process_id = c.process_id
GROUP BY c.trace_id, p.pid, c.process_id, c.device_id, c.cause
ORDER BY c.trace_id, p.pid, c.process_id, device_id, idle_ns DESC, c.cause
