-- Clocks, temperature, power and fan speed of the GPUs (--system-profiling on). A record has up to
-- four 32-bit words whose meaning depends on its kind. Power is in milliwatts.
WITH meanings AS (
    SELECT * FROM (VALUES
        (1, 'SM clock', 'MHz', 0, 1.0),
        (1, 'Memory clock', 'MHz', 1, 1.0),
        (1, 'PCIe link generation', NULL, 2, 1.0),
        (1, 'PCIe link width', 'lane', 3, 1.0),
        (2, 'GPU temperature', '°C', 0, 1.0),
        (3, 'Power', 'W', 0, 0.001),
        (3, 'Power limit', 'W', 1, 0.001),
        (4, 'Fan speed', '%', 0, 1.0)
    ) AS meaning (environment_kind, metric, unit, word, scale)
)

SELECT
    e.timestamp AS timestamp_ns,
    e.deviceId AS gpu_id,
    m.metric,
    m.unit,
    [e.word_0, e.word_1, e.word_2, e.word_3][m.word + 1] * m.scale AS value
FROM CUPTI_ACTIVITY_KIND_ENVIRONMENT AS e
JOIN meanings AS m ON m.environment_kind = e.environmentKind
WHERE e.timestamp > 0
