-- Device of each CUDA context: from the operations that ran in it, else from the list of contexts,
-- which names processes by operating-system id only. NULL if the sources disagree.
WITH evidence AS (
    SELECT
        1 AS rank,
        process_key(globalPid) AS process_id,
        contextId AS context_id,
        TRY_CAST(applicable(deviceId) AS INTEGER) AS device_id
    FROM operation_scope
    WHERE has_device
    UNION ALL
    SELECT 2 AS rank, p.process_id, c.contextId AS context_id, TRY_CAST(c.deviceId AS INTEGER)
    FROM (
        SELECT processId, contextId, deviceId FROM TARGET_INFO_CUDA_CONTEXT_INFO
        UNION ALL
        SELECT processId, contextId, deviceId FROM TARGET_INFO_CUDA_NULL_STREAM
    ) AS c
    INNER JOIN _profiled_process AS p ON process_number(p.process_id) = c.processId
),

best AS (
    FROM evidence
    WHERE device_id IS NOT NULL
    QUALIFY rank = min(rank) OVER (PARTITION BY process_id, context_id)
)

SELECT process_id, context_id, agreed(device_id) AS device_id
FROM best
GROUP BY process_id, context_id
