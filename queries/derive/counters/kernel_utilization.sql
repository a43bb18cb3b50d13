/*
title    = "Counted utilization of each kernel name"
question = "What is the utilization of each kernel by hardware counters, and of all kernels?"
source   = "Zhu et al. 2018: utilization weighted by duration, compared with the mean of the trace"
grain    = "kernel name and precision, per trace"
needs    = ["kernel_work"]
returns = [
    "trace_id", "precision", "kernel_name", "utilization", "mean_utilization", "measure",
    "share_pct", "total_ns", "instances",
]
[columns]
utilization = """utilization of the kernel in the unit of its measure, weighted by duration (pipe:
    by cycles); levels without durations are weighted by executions"""
mean_utilization = """mean over all measured kernels of the trace, with the same weights; kernels
    above the physical peak are excluded"""
measure = """FLOP (% of peak while it runs), pipe (% of SM-active cycles) or level (0 to 10,
    nvprof): the most exact measure collected for the trace"""
share_pct = "total duration ÷ duration of all kernels in the window"
total_ns = "total duration"
instances = "executions"
[advice]
missing = "needs hardware counters of the kernels; {counters}"
counters = "utilization of the kernels"
*/
WITH
work AS (
    SELECT *, flop / peak_flops * 1e9 AS ideal_ns, coalesce(duration_ns, cycles) AS weight
    FROM kernel_work
    WHERE evidence = 'counter'
),
every_kernel AS (
    SELECT trace_id, sum(duration_ns) AS total_ns
    FROM (SELECT DISTINCT trace_id, kernel_id, duration_ns FROM kernel_work) GROUP BY ALL
),
-- One measure per trace and precision, because measures cannot be averaged: the most exact one that
-- covers at least 95 % of the counted time.
measure AS (
    SELECT trace_id, precision,
        bool_and(cycles IS NOT NULL) FILTER (pipe_active_pct IS NOT NULL) AS has_cycles,
        bool_or(duration_ns IS NOT NULL) AS has_durations,
        CASE
            WHEN sum(weight) FILTER (ideal_ns IS NOT NULL AND duration_ns > 0)
                >= 0.95 * sum(weight) THEN 'FLOP'
            WHEN sum(weight) FILTER (pipe_active_pct IS NOT NULL)
                >= 0.95 * sum(weight) THEN 'pipe'
            WHEN count(pipe_level) > 0 THEN 'level'
            WHEN count(pipe_active_pct) > 0 THEN 'pipe'
        END AS measure
    FROM work GROUP BY trace_id, precision
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
        FROM work w JOIN measure m USING (trace_id, precision)
        WHERE m.measure IS NOT NULL
    )
),
by_kernel AS (
    -- Floating-point sums depend on the order of rows; ORDER BY makes them reproducible.
    SELECT trace_id, precision, kernel_name, measure,
        sum(numerator ORDER BY kernel_id) AS numerator,
        sum(denominator) AS denominator,
        sum(numerator ORDER BY kernel_id) / nullif(sum(denominator), 0) AS utilization,
        sum(duration_ns)::BIGINT AS total_ns, count(*) AS instances
    FROM weighted WHERE numerator IS NOT NULL
    GROUP BY trace_id, precision, kernel_name, measure
    -- Above the physical peak, FLOP, peak or times are wrong.
    HAVING measure <> 'FLOP' OR sum(numerator) <= 100 * sum(denominator)
),
by_trace AS (
    SELECT trace_id, precision,
        sum(numerator ORDER BY kernel_name) / nullif(sum(denominator), 0) AS mean_utilization
    FROM by_kernel GROUP BY trace_id, precision
)
SELECT k.trace_id, k.precision, k.kernel_name, k.utilization, t.mean_utilization, k.measure,
    100.0 * k.total_ns / nullif(e.total_ns, 0) AS share_pct, k.total_ns, k.instances
FROM by_kernel k
JOIN by_trace t USING (trace_id, precision)
JOIN every_kernel e USING (trace_id)
