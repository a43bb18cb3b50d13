-- Kineto's estimate of the occupancy, by CUPTI's calculator from the launch configuration. It is 0
-- for kernels whose shared memory exceeds the limit without opt-in: unknown, not 0.
SELECT
    e.event_id AS kernel_id,
    n.demangled AS kernel_name,
    coalesce(e.a.device, TRY_CAST(e.pid AS BIGINT)) AS device_id,
    'torch' AS tool,
    'est. achieved occupancy' AS metric,
    '%' AS unit,
    e.a."est. achieved occupancy %" AS value,
    1 AS instances
FROM (
    SELECT *, json_transform(args, '{
        "device": "BIGINT", "est. achieved occupancy %": "DOUBLE"}') AS a
    FROM event WHERE kind = 'kernel'
) AS e
JOIN kernel_name AS n ON n.name = e.name
WHERE e.a."est. achieved occupancy %" IS NOT NULL
