/*
title    = "Kernels launched outside the window"
question = "What share of the kernel time in the window was launched outside the window?"
source   = """kernels run after their launch: without a synchronisation at the edges of the window,
    kernels launched before the window run inside it"""
grain    = "trace: the device with the largest share"
needs    = ["api_call", "gpu_op", "launch"]
optional = ["analysis_window", "op_scope", "iteration"]
reduce   = "concat"
[check]
rule = "ROB02"
scope = "trace"
thresholds = "proposed"
advice = """synchronise the device at the edges of the window ({window}, and at the end of an
    iteration)"""
collect = "a timeline with the calls that launch the kernels ({launches})"
[params.max_outside_pct]
doc = "maximum share of the kernel time launched outside the window, in percent"
default = 1.0
*/
WITH
setting AS (SELECT getvariable('max_outside_pct')::DOUBLE AS max_outside_pct),
-- The window on the host: from its first iteration to the start of the next one after it.
host AS (
    SELECT w.trace_id, w.process_id, w.device_id, w.start_ns AS gpu_start_ns,
        w.end_ns AS gpu_end_ns, w.measured_over, w.iterations,
        min(i.start_ns) FILTER (i.iteration >= w.first_iteration) AS start_ns,
        coalesce(min(i.start_ns) FILTER (i.iteration > w.last_iteration),
            max(i.end_ns) FILTER (i.iteration = w.last_iteration)) AS end_ns
    FROM analysis_window w
    LEFT JOIN iteration i
        ON  i.trace_id = w.trace_id AND i.process_id IS NOT DISTINCT FROM w.process_id
        AND w.first_iteration IS NOT NULL
    GROUP BY ALL
),
kernel_in_window AS (
    SELECT h.trace_id, h.process_id, h.device_id, h.measured_over, h.iterations,
        least(o.end_ns, h.gpu_end_ns) - greatest(o.start_ns, h.gpu_start_ns) AS ns,
        o.launch_start_ns IS NULL AS is_unlaunched,
        coalesce(
            o.launch_start_ns < h.start_ns OR o.launch_start_ns >= h.end_ns, false) AS is_outside
    FROM host h
    JOIN op_scope o
        ON  o.trace_id = h.trace_id AND o.process_id IS NOT DISTINCT FROM h.process_id
        AND o.device_id IS NOT DISTINCT FROM h.device_id
    WHERE o.op_kind IN ('kernel', 'graph')
      AND o.start_ns < h.gpu_end_ns AND o.end_ns > h.gpu_start_ns
),
shared AS (
    SELECT trace_id, process_id, device_id, measured_over, iterations, sum(ns) AS kernel_ns,
        100.0 * coalesce(sum(ns) FILTER (is_unlaunched OR is_outside), 0)
            / nullif(sum(ns), 0) AS outside_pct,
        100.0 * coalesce(sum(ns) FILTER (is_unlaunched), 0) / nullif(sum(ns), 0) AS unlaunched_pct
    FROM kernel_in_window GROUP BY ALL
),
evaluated AS (
    SELECT *,
        -- Devices with under 10 % of the kernel time of the busiest one come last.
        kernel_ns >= 0.1 * max(kernel_ns) OVER (PARTITION BY trace_id) AS is_used,
        format('{:.2f} % of the kernel time in {} was launched outside the window',
            outside_pct,
            CASE measured_over WHEN 'whole trace' THEN 'the trace'
                WHEN 'steady state' THEN iterations || ' iterations of the steady state'
                ELSE iterations || ' iterations' END)
            || CASE WHEN unlaunched_pct > 0 THEN format(
                ' ({:.2f} % has no launch in the trace: launched before the recording, or '
                    || 'lost records)',
                unlaunched_pct) ELSE '' END AS reason
    FROM shared
)
SELECT trace_id,
    CASE WHEN outside_pct > max_outside_pct THEN 'finding' ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    outside_pct AS value, max_outside_pct AS threshold, '%' AS unit, 'timeline' AS evidence, reason,
    NULL::VARCHAR AS advice
FROM evaluated CROSS JOIN setting
WHERE outside_pct IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY trace_id ORDER BY is_used DESC, outside_pct DESC, process_id, device_id) = 1
ORDER BY trace_id
