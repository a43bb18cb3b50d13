-- Synchronizations. The device is that of the context; 0xFFFFFFFF (-1) means "does not apply".
WITH context AS (
    SELECT contextId, any_value(deviceId) AS device_id
    FROM CUPTI_ACTIVITY_KIND_CONTEXT
    GROUP BY contextId
    HAVING count(DISTINCT deviceId) = 1
)

SELECT
    row_number() OVER (ORDER BY s._id_) AS synchronization_id,
    nullif(s.start, 0) AS start_ns,
    nullif(s."end", 0) AS end_ns,
    r.process_id,
    c.device_id,
    nullif(s.contextId & 4294967295, 4294967295) AS context_id,
    nullif(s.streamId & 4294967295, 4294967295) AS stream_id,
    nullif(s.correlationId, 0) AS correlation_id,
    CASE s.type
        WHEN 1 THEN 'event synchronize'
        WHEN 2 THEN 'stream wait event'
        WHEN 3 THEN 'stream synchronize'
        WHEN 4 THEN 'context synchronize'
        ELSE 'unknown'
    END AS sync_type
FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION AS s
CROSS JOIN recording AS r
LEFT JOIN context AS c ON c.contextId = s.contextId
