/*
title    = "Iteration summary"
question = "How long does a stable iteration take, and how much does that vary?"
source   = "median and percentiles over the stable window; below three iterations there is no answer"
grain    = "process and kind of time"
needs    = ["iteration"]
optional = ["process"]
[columns.trace_id]
doc = "the trace"
[columns.pid]
doc = "process; NULL when unknown"
[columns.measure]
doc = "period_ns, host_ns or gpu_ns (iteration_timing)"
[columns.n]
doc = "iterations counted"
[columns.median_ns]
unit = "ns"
doc = "median; NULL below three iterations"
[columns.p5_ns]
unit = "ns"
doc = "5th percentile, interpolated; NULL below three iterations"
[columns.p95_ns]
unit = "ns"
doc = "95th percentile, interpolated; NULL below three iterations"
[columns.mean_ns]
unit = "ns"
doc = "mean; NULL below three iterations"
[columns.cv_pct]
unit = "%"
doc = "coefficient of variation; NULL below three iterations"
[columns.measured_over]
doc = "stable iterations, or all iterations where none are stable"
[columns.dropped]
doc = "iterations left out and why"
[columns.method]
doc = "nvtx range, nvtx mark or kernel order"
[columns.confidence]
doc = "1 for the program's own marks; for kernel order the share of kernels in identical periods"
*/
WITH
chosen AS (
    SELECT *, bool_or(in_window) OVER process AS has_window
    FROM iteration WINDOW process AS (PARTITION BY trace_id, process_id)
),
dropped AS (
    SELECT trace_id, process_id, string_agg(text, '; ' ORDER BY first) AS dropped
    FROM (SELECT trace_id, process_id, dropped || ': ' || string_agg(iteration, ', ' ORDER BY iteration) AS text,
              min(iteration) AS first
          FROM iteration WHERE dropped IS NOT NULL GROUP BY trace_id, process_id, dropped)
    GROUP BY ALL
),
long AS (
    SELECT trace_id, process_id, has_window, method, confidence,
        unnest(['period_ns', 'host_ns', 'gpu_ns']) AS measure,
        unnest([period_ns, host_ns, gpu_ns]) AS ns
    FROM chosen WHERE in_window OR NOT has_window
),
summed AS (
    SELECT trace_id, process_id, measure, any_value(method) AS method,
        any_value(confidence) AS confidence, bool_and(has_window) AS has_window, count(ns) AS n,
        median(ns) AS median_ns, quantile_cont(ns, 0.05) AS p5_ns, quantile_cont(ns, 0.95) AS p95_ns,
        avg(ns) AS mean_ns, 100.0 * stddev_samp(ns) / nullif(avg(ns), 0) AS cv_pct
    FROM long GROUP BY ALL
)
SELECT s.trace_id, p.pid, s.measure, s.n,
    CASE WHEN s.n >= 3 THEN s.median_ns END::DOUBLE AS median_ns,
    CASE WHEN s.n >= 3 THEN s.p5_ns END::DOUBLE AS p5_ns,
    CASE WHEN s.n >= 3 THEN s.p95_ns END::DOUBLE AS p95_ns,
    CASE WHEN s.n >= 3 THEN s.mean_ns END AS mean_ns,
    CASE WHEN s.n >= 3 THEN s.cv_pct END AS cv_pct,
    CASE WHEN s.has_window THEN 'stable iterations' ELSE 'all iterations' END AS measured_over,
    d.dropped, s.method, s.confidence
FROM summed s
LEFT JOIN dropped d
    ON d.trace_id = s.trace_id AND d.process_id IS NOT DISTINCT FROM s.process_id
LEFT JOIN process p ON p.trace_id = s.trace_id AND p.process_id = s.process_id
ORDER BY s.trace_id, p.pid, s.process_id,
    CASE s.measure WHEN 'period_ns' THEN 0 WHEN 'host_ns' THEN 1 ELSE 2 END
