/*
title    = "Kernels of low utilization"
question = "Which long-running kernels use the GPU less than the trace does on average, and which more?"
source   = "Zhu et al. 2018: the table of the five longest kernels whose FP32 utilization is below the average"
grain    = "one kernel name, below or above the mean of its trace"
needs    = ["kernel", "kernel_counter", "kernel_work"]
[params.precision]
doc = "which utilization"
choices = ["fp32", "fp16", "tensor"]
default = "fp32"
[params.count]
doc = "kernels below the mean, and kernels above it"
default = 5
[columns.trace_id]
doc = "the trace"
[columns.side]
doc = "below or above the trace's mean"
[columns.rank]
doc = "order by total duration on that side, from 1"
[columns.kernel_name]
doc = "demangled name"
[columns.utilization]
doc = "utilization of the kernel in the unit of its measure, weighted by duration (pipe: by cycles); levels without any duration by executions"
[columns.mean_utilization]
doc = "the same over all measured kernels of the trace; kernels above the physical peak are left out"
[columns.measure]
doc = "FLOP (% of peak while it runs), pipe (% of SM-active cycles) or level (nvprof's 0 to 10): the best that was collected for the trace"
[columns.share_pct]
unit = "%"
doc = "total duration ÷ duration of all kernels in the window"
[columns.total_ns]
unit = "ns"
doc = "total duration"
[columns.instances]
doc = "executions"
[columns.evidence]
doc = "counter"
*/
WITH
work AS (
    SELECT *, flop / peak_flops * 1e9 AS ideal_ns, coalesce(duration_ns, cycles) AS weight
    FROM kernel_work
    WHERE evidence = 'counter' AND precision = coalesce(getvariable('precision'), 'fp32')
),
every_kernel AS (
    SELECT trace_id, sum(duration_ns) AS total_ns
    FROM (SELECT DISTINCT trace_id, kernel_id, duration_ns FROM kernel_work) GROUP BY ALL
),
-- Measures are never mixed: the first that covers nearly all of what was counted serves.
measure AS (
    SELECT trace_id,
        bool_and(cycles IS NOT NULL) FILTER (pipe_active_pct IS NOT NULL) AS has_cycles,
        bool_or(duration_ns IS NOT NULL) AS has_durations,
        CASE
            WHEN sum(weight) FILTER (ideal_ns IS NOT NULL AND duration_ns > 0) >= 0.95 * sum(weight) THEN 'FLOP'
            WHEN sum(weight) FILTER (pipe_active_pct IS NOT NULL) >= 0.95 * sum(weight) THEN 'pipe'
            WHEN count(pipe_level) > 0 THEN 'level'
            WHEN count(pipe_active_pct) > 0 THEN 'pipe'
        END AS measure
    FROM work GROUP BY trace_id
),
weighted AS (
    SELECT *,
        CASE measure WHEN 'FLOP' THEN 100.0 * ideal_ns
            WHEN 'pipe' THEN pipe_active_pct * denominator
            ELSE pipe_level * denominator END AS numerator
    FROM (
        SELECT w.*, m.measure,
            CASE WHEN m.measure = 'pipe' AND m.has_cycles THEN w.cycles
                 WHEN m.measure = 'level' AND NOT m.has_durations THEN 1
                 ELSE w.duration_ns END AS denominator
        FROM work w JOIN measure m USING (trace_id)
        WHERE m.measure IS NOT NULL
    )
),
by_kernel AS (
    SELECT trace_id, kernel_name, measure, sum(numerator ORDER BY kernel_id) AS numerator,
        sum(denominator) AS denominator,
        sum(numerator ORDER BY kernel_id) / nullif(sum(denominator), 0) AS utilization,
        sum(duration_ns)::BIGINT AS total_ns, count(*) AS instances
    FROM weighted WHERE numerator IS NOT NULL
    GROUP BY trace_id, kernel_name, measure
    -- above the physical peak the FLOP, the peak or the times are wrong
    HAVING measure <> 'FLOP' OR sum(numerator) <= 100 * sum(denominator)
),
by_trace AS (
    SELECT trace_id,
        sum(numerator ORDER BY kernel_name) / nullif(sum(denominator), 0) AS mean_utilization
    FROM by_kernel GROUP BY trace_id
),
ranked AS (
    SELECT k.*, t.mean_utilization,
        CASE WHEN k.utilization < t.mean_utilization THEN 'below' ELSE 'above' END AS side,
        row_number() OVER (
            PARTITION BY k.trace_id, k.utilization < t.mean_utilization
            ORDER BY k.total_ns DESC NULLS LAST, k.kernel_name) AS rank
    FROM by_kernel k JOIN by_trace t USING (trace_id)
)
SELECT r.trace_id, r.side, r.rank, r.kernel_name, r.utilization, r.mean_utilization, r.measure,
    100.0 * r.total_ns / nullif(e.total_ns, 0) AS share_pct, r.total_ns, r.instances, 'counter' AS evidence
FROM ranked r JOIN every_kernel e USING (trace_id)
WHERE r.rank <= coalesce(getvariable('count'), 5)
ORDER BY r.trace_id, r.side DESC, r.rank
