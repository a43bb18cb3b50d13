-- Copies: ordinary (MEMCPY), between GPUs (MEMCPY2), and migrations of managed memory
-- (UNIFIED_MEMORY_COUNTER kinds 1, 2 and 8; other kinds count faults). A migration names source and
-- target by device number, the host being 0xFFFFFFFF. Its device is the GPU side; between two GPUs,
-- the receiver.
WITH unified AS (
    SELECT
        _id_,
        start,
        "end",
        processId,
        value AS bytes,
        CASE counterKind
            WHEN 1 THEN 'unified HtoD' WHEN 2 THEN 'unified DtoH' ELSE 'unified DtoD'
        END AS direction,
        nullif(srcId & 4294967295, 4294967295) AS source_gpu,
        nullif(dstId & 4294967295, 4294967295) AS target_gpu
    FROM CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER
    WHERE counterKind IN (1, 2, 8)
),

copies AS (
    SELECT 0 AS source, * FROM CUPTI_ACTIVITY_KIND_MEMCPY
    UNION ALL BY NAME
    SELECT 1 AS source, * FROM CUPTI_ACTIVITY_KIND_MEMCPY2
    UNION ALL BY NAME
    SELECT
        2 AS source, _id_, start, "end", processId, bytes, direction,
        coalesce(if(direction = 'unified DtoH', source_gpu, target_gpu), source_gpu) AS deviceId,
        source_gpu AS srcDeviceId,
        target_gpu AS dstDeviceId
    FROM unified
)

SELECT
    row_number() OVER (ORDER BY c.source, c._id_) AS memcpy_id,
    nullif(c.start, 0) AS start_ns,
    nullif(c."end", 0) AS end_ns,
    TRY(nullif(c."end", 0) - nullif(c.start, 0)) AS duration_ns,
    coalesce(c.processId, r.process_id) AS process_id,
    c.deviceId AS device_id,
    c.contextId AS context_id,
    c.streamId AS stream_id,
    nullif(c.correlationId, 0) AS correlation_id,
    c.bytes,
    coalesce(c.direction, k.direction, 'unknown') AS direction,
    s.memory_kind AS src_kind,
    d.memory_kind AS dst_kind,
    c.srcDeviceId AS src_device_id,
    c.dstDeviceId AS dst_device_id,
    nullif(c.graphNodeId, 0) AS graph_node_id
FROM copies AS c
CROSS JOIN recording AS r
LEFT JOIN _copy_kind AS k ON k.code = c.copyKind
LEFT JOIN _memory_kind AS s ON s.code = c.srcKind
LEFT JOIN _memory_kind AS d ON d.code = c.dstKind
