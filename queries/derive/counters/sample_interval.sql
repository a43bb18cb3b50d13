/*
title    = "Sampled utilization over time"
question = "Which share of its peak did each unit of a GPU reach between two samples?"
source   = "periodic GPU metrics of the profiler in percent, named in sampled_metrics"
grain    = "sample of a metric of a GPU that has a previous sample"
needs    = ["gpu_sample", "sampled_metrics"]
returns = ["trace_id", "gpu_id", "quantity", "metric", "start_ns", "end_ns", "value_pct"]
[columns]
quantity = "sampled quantity, as in sampled_metrics"
metric = "metric name of the profiler"
start_ns = "time of the previous sample, at most 10 usual intervals before"
end_ns = "time of the sample"
value_pct = "mean since the previous sample"
[advice]
missing = "needs periodic GPU metrics; {gpu_metrics}"
*/
WITH
named AS (
    SELECT trace_id, metric, quantity
    FROM (SELECT DISTINCT trace_id, metric FROM gpu_sample WHERE unit = '%') m
    JOIN sampled_metrics q ON regexp_matches(m.metric, q.pattern)
),
-- Several variants of a metric count once.
chosen AS (
    SELECT trace_id, quantity, min(metric) AS metric FROM named GROUP BY ALL
),
since AS (
    SELECT s.trace_id, s.gpu_id, c.quantity, s.metric, s.timestamp_ns, s.value,
        s.timestamp_ns - lag(s.timestamp_ns) OVER (
            PARTITION BY s.trace_id, s.gpu_id, s.metric ORDER BY s.timestamp_ns) AS interval_ns
    FROM gpu_sample s
    JOIN chosen c ON c.trace_id = s.trace_id AND c.metric = s.metric
    WHERE s.value IS NOT NULL
),
usual AS (
    SELECT trace_id, gpu_id, metric, median(interval_ns) AS usual_ns FROM since GROUP BY ALL
)
SELECT s.trace_id, s.gpu_id, s.quantity, s.metric,
    s.timestamp_ns - least(s.interval_ns, 10 * u.usual_ns)::BIGINT AS start_ns,
    s.timestamp_ns AS end_ns, s.value AS value_pct
FROM since s
JOIN usual u
    ON  u.trace_id = s.trace_id AND u.gpu_id IS NOT DISTINCT FROM s.gpu_id AND u.metric = s.metric
WHERE s.interval_ns > 0
