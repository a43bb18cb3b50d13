/*
title    = "Sampled utilization"
question = "Which share of its peak does each unit of the GPU reach, by periodic samples?"
source   = """means of samples, weighted by time; samples have other denominators than hardware
    counters of kernels and are not combined with them"""
grain    = "sampled quantity of a device, per iteration or layer if chosen"
needs    = ["sample_interval", "analysis_window", "op_scope"]
reduce   = "concat"
returns = [
    "trace_id", "device_id", "iteration", "layer", "quantity", "value_pct", "max_pct", "samples",
    "sampled_ns", "metric", "evidence", "measured_over", "reason",
]
[params.by]
doc = """trace; iteration: from its first operation to that of the next one; layer: samples whose
    time its operations fill at least half"""
default = "trace"
choices = ["trace", "iteration", "layer"]
[columns]
device_id = "device; taken to be the physical GPU of the same number"
iteration = "iteration; NULL unless by = iteration"
layer = "layer; NULL unless by = layer"
value_pct = "mean, weighted by time; NULL with a reason"
max_pct = "largest sample; NULL with a reason"
samples = "number of samples"
sampled_ns = "time that the samples cover"
evidence = "sampled"
measured_over = "window of the mean"
reason = "why values are NULL; NULL if they are known"
[plot]
kind   = "grouped_barh"
x      = "quantity"
y      = ["value_pct"]
series = ["iteration", "layer"]
panels = ["trace_id", "device_id"]
limit  = 60
*/
WITH
setting AS (SELECT getvariable('by') AS grouping_by),
measured AS (
    SELECT trace_id, device_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
        first(measured_over ORDER BY process_id NULLS LAST) AS measured_over
    FROM analysis_window GROUP BY trace_id, device_id
),
operation AS (
    SELECT o.trace_id, o.device_id, o.iteration, o.layer, o.start_ns, o.end_ns
    FROM op_scope o
    JOIN measured m USING (trace_id, device_id)
    WHERE o.start_ns >= m.start_ns AND o.start_ns < m.end_ns
),
first AS (
    SELECT o.trace_id, o.device_id, o.iteration, min(o.start_ns) AS start_ns,
        max(m.end_ns) AS last_ns
    FROM operation o
    JOIN measured m USING (trace_id, device_id)
    WHERE o.iteration IS NOT NULL GROUP BY o.trace_id, o.device_id, o.iteration
),
span AS (
    SELECT trace_id, device_id, NULL::BIGINT AS iteration, NULL::VARCHAR AS layer, start_ns, end_ns
    FROM measured, setting WHERE grouping_by = 'trace'
    UNION ALL
    SELECT trace_id, device_id, iteration, NULL, start_ns, lead(start_ns, 1, last_ns) OVER (
        PARTITION BY trace_id, device_id ORDER BY iteration)
    FROM first, setting WHERE grouping_by = 'iteration'
    UNION ALL
    SELECT trace_id, device_id, NULL, layer, start_ns, end_ns
    FROM operation, setting WHERE grouping_by = 'layer' AND layer IS NOT NULL
),
overlap AS (
    SELECT p.trace_id, p.device_id, p.iteration, p.layer, s.quantity, s.metric, s.end_ns,
        any_value(s.value_pct) AS value_pct, any_value(s.end_ns - s.start_ns) AS interval_ns,
        sum(least(s.end_ns, p.end_ns) - greatest(s.start_ns, p.start_ns)) AS ns
    FROM sample_interval s
    JOIN span p
        ON  p.trace_id = s.trace_id AND coalesce(s.gpu_id, p.device_id) = p.device_id
        AND s.start_ns < p.end_ns AND s.end_ns > p.start_ns
    GROUP BY p.trace_id, p.device_id, p.iteration, p.layer, s.quantity, s.metric, s.end_ns
),
mean AS (
    SELECT trace_id, device_id, iteration, layer, quantity, metric,
        sum(value_pct * ns) / sum(ns) AS value_pct, max(value_pct) AS max_pct,
        count(*) AS samples, sum(ns)::BIGINT AS sampled_ns
    FROM overlap
    WHERE layer IS NULL OR ns >= interval_ns / 2
    GROUP BY trace_id, device_id, iteration, layer, quantity, metric
)
SELECT n.trace_id, n.device_id, n.iteration, n.layer, n.quantity,
    CASE WHEN n.max_pct <= 100 THEN n.value_pct END AS value_pct,
    CASE WHEN n.max_pct <= 100 THEN n.max_pct END AS max_pct,
    n.samples, n.sampled_ns, n.metric, 'sampled' AS evidence, m.measured_over,
    CASE WHEN n.max_pct > 100
         THEN format('a sample of {:.4g} % is above the peak', n.max_pct) END AS reason
FROM mean n
JOIN measured m USING (trace_id, device_id)
ORDER BY n.trace_id, n.device_id, n.iteration, n.layer, n.quantity
