-- Metric names for GPU_METRICS.
SELECT typeId AS type_id, metricId AS metric_id, min(metricName) AS metric
FROM TARGET_INFO_GPU_METRICS
WHERE metricName <> ''
GROUP BY ALL
