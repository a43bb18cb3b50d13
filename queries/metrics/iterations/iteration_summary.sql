/*
title    = "Iteration summary"
question = "How long does an iteration take, how much do times vary, and how long are stalls?"
source   = """mean = total ÷ n over the steady state: all iterations after the warm-up, stalls
    included"""
grain    = "process and measure"
needs    = ["iteration"]
optional = ["iteration_statistics", "process"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "measure", "n", "mean_ns", "stalls", "stall_share_pct", "stall_spacing",
    "typical_ns", "median_ns", "p5_ns", "p95_ns", "cv_pct", "trend_pct", "stability", "clock",
    "measured_over", "dropped", "method", "confidence",
]
[columns]
measure = "period_ns, host_ns or gpu_ns (iteration_timing)"
n = "iterations counted"
mean_ns = "total ÷ n, the value to report; with fewer than three iterations, see stability"
stall_spacing = """most frequent distance between successive stalls, in iterations, if at least four
    fifths of two or more distances are equal; NULL otherwise. If it equals the number of loader
    workers, all workers are late together"""
typical_ns = "median of the iterations that are not stalls; NULL with fewer than three iterations"
median_ns = "median; NULL with fewer than three iterations"
p5_ns = "5th percentile, interpolated; NULL with fewer than three iterations"
p95_ns = "95th percentile, interpolated; NULL with fewer than three iterations"
cv_pct = "coefficient of variation; NULL with fewer than three iterations"
trend_pct = """change from the first to the last iteration by the median slope (Theil-Sen), in
    percent of the mean; NULL if below one standard deviation, or with fewer than ten iterations"""
clock = "clock of the periods: host, or gpu if the host ran ahead (iteration_timing)"
measured_over = "steady state, or all iterations without a steady state"
dropped = "iterations left out, with the reason"
*/
WITH
-- Successive iterations with the same reason form a range, in which the difference of iteration
-- and row number is constant.
stretch AS (
    SELECT trace_id, process_id, dropped, min(iteration) AS first_iteration,
        max(iteration) AS last_iteration
    FROM (
        SELECT *, iteration - row_number() OVER (
            PARTITION BY trace_id, process_id, dropped ORDER BY iteration) AS stretch
        FROM iteration WHERE dropped IS NOT NULL
    )
    GROUP BY trace_id, process_id, dropped, stretch
),
dropped AS (
    SELECT trace_id, process_id, string_agg(text, '; ' ORDER BY first_iteration, text) AS dropped
    FROM (
        SELECT trace_id, process_id, min(first_iteration) AS first_iteration,
            dropped || ': ' || string_agg(
                first_iteration || CASE WHEN last_iteration > first_iteration
                    THEN '-' || last_iteration ELSE '' END,
                ', ' ORDER BY first_iteration) AS text
        FROM stretch GROUP BY trace_id, process_id, dropped
    )
    GROUP BY ALL
)
-- Quantiles and spread of one or two iterations would suggest a distribution.
SELECT s.trace_id, p.pid, s.measure, s.n, s.mean_ns, s.stalls, s.stall_share_pct, s.stall_spacing,
    CASE WHEN s.n >= 3 THEN s.typical_ns END AS typical_ns,
    CASE WHEN s.n >= 3 THEN s.median_ns END AS median_ns,
    CASE WHEN s.n >= 3 THEN s.p5_ns END AS p5_ns,
    CASE WHEN s.n >= 3 THEN s.p95_ns END AS p95_ns,
    CASE WHEN s.n >= 3 THEN s.cv_pct END AS cv_pct,
    s.trend_pct, s.stability, s.clock, s.measured_over, d.dropped, s.method, s.confidence
FROM iteration_statistics s
LEFT JOIN dropped d
    ON d.trace_id = s.trace_id AND d.process_id IS NOT DISTINCT FROM s.process_id
LEFT JOIN process p ON p.trace_id = s.trace_id AND p.process_id = s.process_id
ORDER BY s.trace_id, p.pid, s.process_id,
    CASE s.measure WHEN 'period_ns' THEN 0 WHEN 'host_ns' THEN 1 ELSE 2 END
