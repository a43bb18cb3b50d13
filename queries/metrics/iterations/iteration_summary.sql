/*
title    = "Iteration summary"
question = "How long does an iteration take, how much does that vary, and what stalls?"
source   = "mean = total ÷ number over the steady state: warm-up is a prefix, everything after it counts, stalls included"
grain    = "process and kind of time"
needs    = ["iteration"]
optional = ["iteration_statistics", "process"]
[columns.trace_id]
doc = "the trace"
[columns.pid]
doc = "process; NULL when unknown"
[columns.measure]
doc = "period_ns, host_ns or gpu_ns (iteration_timing)"
[columns.n]
doc = "iterations counted"
[columns.mean_ns]
unit = "ns"
doc = "total ÷ n: the time to quote. Below three iterations a warning, see stability"
[columns.stalls]
doc = "iterations longer than 1.5 × the median"
[columns.stall_share_pct]
unit = "%"
doc = "time of the stalls ÷ total"
[columns.stall_spacing]
doc = "iterations from one stall to the next, where four of five distances are this one, of two at least; NULL otherwise. Where it is the number of loader workers, all of them are late together"
[columns.typical_ns]
unit = "ns"
doc = "median of the iterations that are no stalls; NULL below three iterations"
[columns.median_ns]
unit = "ns"
doc = "median; NULL below three iterations"
[columns.p5_ns]
unit = "ns"
doc = "5th percentile, interpolated; NULL below three iterations"
[columns.p95_ns]
unit = "ns"
doc = "95th percentile, interpolated; NULL below three iterations"
[columns.cv_pct]
unit = "%"
doc = "coefficient of variation; NULL below three iterations"
[columns.trend_pct]
unit = "%"
doc = "change from first to last by the median slope (Theil-Sen), in percent of the mean, where it is more than one standard deviation; NULL otherwise and below ten iterations"
[columns.stability]
doc = "what a reader of the mean must know: too few iterations, no steady state, two groups of times (bimodal), stalls, a trend, a coefficient of variation above 5 %; or steady"
[columns.clock]
doc = "clock of the periods: host, or gpu where the host ran ahead (iteration_timing)"
[columns.measured_over]
doc = "steady state, or all iterations where there is none"
[columns.dropped]
doc = "iterations left out and why"
[columns.method]
doc = "nvtx range, nvtx mark or anchor kernel"
[columns.confidence]
doc = "1 for the program's own marks; for an anchor kernel its score (_iteration_anchor)"
*/
WITH
-- Iterations that follow each other and are left out for one reason are a range.
stretch AS (
    SELECT trace_id, process_id, dropped, min(iteration) AS first_iteration, max(iteration) AS last_iteration
    FROM (
        SELECT *, iteration - row_number() OVER (PARTITION BY trace_id, process_id, dropped ORDER BY iteration) AS stretch
        FROM iteration WHERE dropped IS NOT NULL
    )
    GROUP BY trace_id, process_id, dropped, stretch
),
dropped AS (
    SELECT trace_id, process_id, string_agg(text, '; ' ORDER BY first_iteration, text) AS dropped
    FROM (
        SELECT trace_id, process_id, min(first_iteration) AS first_iteration,
            dropped || ': ' || string_agg(
                first_iteration || CASE WHEN last_iteration > first_iteration THEN '-' || last_iteration ELSE '' END,
                ', ' ORDER BY first_iteration) AS text
        FROM stretch GROUP BY trace_id, process_id, dropped
    )
    GROUP BY ALL
)
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
