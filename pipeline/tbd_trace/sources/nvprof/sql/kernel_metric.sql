-- Metric and event values. The file contains CUPTI numbers and untyped 8-byte values; table
-- nvprof_metrics defines the type: percent and double are doubles, throughput (byte/s) and uint64
-- unsigned integers, level a 32-bit enumeration. The value of an unlisted number is NULL, and text
-- contains its bytes.
-- Flag 1: the counter overflowed. Flag 2: the value could not be computed. text is then as nvprof
-- prints it.
WITH readings AS (
    SELECT 'metric' AS record, NULL AS instance, * FROM CUPTI_ACTIVITY_KIND_METRIC
    UNION ALL BY NAME
    SELECT 'metric' AS record, * FROM CUPTI_ACTIVITY_KIND_METRIC_INSTANCE
    UNION ALL BY NAME
    SELECT 'event' AS record, NULL AS instance, id, correlationId, value AS value_unsigned
    FROM CUPTI_ACTIVITY_KIND_EVENT
    UNION ALL BY NAME
    SELECT 'event' AS record, instance, id, correlationId, value AS value_unsigned
    FROM CUPTI_ACTIVITY_KIND_EVENT_INSTANCE
),

launches AS (
    -- A value belongs to the launch with its correlation id, not to kernels launched by that kernel
    -- (source 2). If a call launched several kernels, the kernel is unknown.
    SELECT
        k.correlationId,
        if(count(*) = 1, min(k.kernel_id), NULL) AS kernel_id,
        if(count(DISTINCT n.name) = 1, min(n.name), NULL) AS kernel_name,
        if(count(DISTINCT k.deviceId) = 1, min(k.deviceId), NULL) AS device_id
    FROM _kernel AS k
    LEFT JOIN kernel_name AS n ON n.string_id = k.name
    WHERE k.source < 2
    GROUP BY k.correlationId
),

numbers AS (
    SELECT
        v.*,
        m.name,
        m.unit,
        m.kind,
        CASE
            WHEN v.flags & 3 <> 0 THEN NULL
            WHEN v.record = 'event' THEN v.value_unsigned
            WHEN m.kind IN ('percent', 'double') THEN v.value_double
            WHEN m.kind IN ('uint64', 'throughput') THEN v.value_unsigned
            WHEN m.kind = 'int64' THEN v.value_signed
            WHEN m.kind = 'level' THEN v.value_unsigned & 4294967295
        END::DOUBLE AS number
    FROM readings AS v
    LEFT JOIN nvprof_metrics AS m ON m.record = v.record AND m.id = v.id
)

SELECT
    l.kernel_id,
    l.kernel_name,
    l.device_id,
    'nvprof' AS tool,
    coalesce(v.name, format('{} {}', v.record, v.id)) AS metric,
    if(v.record = 'metric', v.id, NULL) AS metric_id,
    v.instance AS unit_instance,
    v.unit,
    if(isfinite(v.number), v.number, NULL) AS value,
    CASE
        WHEN v.flags & 1 <> 0 THEN '<OVERFLOW>'
        WHEN v.flags & 2 <> 0 THEN '<INVALID>'
        WHEN NOT isfinite(v.number) THEN v.number::VARCHAR
        WHEN v.record = 'metric' AND v.kind IS NULL THEN hex(v.value)
    END AS text,
    1 AS instances
FROM numbers AS v
LEFT JOIN launches AS l ON l.correlationId = v.correlationId
WHERE v.id IS NOT NULL
