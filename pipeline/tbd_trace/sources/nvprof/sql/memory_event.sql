-- Allocations and releases of device memory (--track-memory-allocations on). MEMORY has one record
-- per allocation with both times, MEMORY2 (from version 16) one per operation. If a file has both,
-- they describe the same operations. 0xFFFFFFFF (-1) means "does not apply". SQLite integers are
-- signed, addresses are not.
WITH operations AS (
    SELECT
        timestamp AS timestamp_ns, correlationId, streamId, processId, deviceId, contextId,
        CASE memoryOperationType WHEN 1 THEN 'allocate' WHEN 2 THEN 'free' END AS operation,
        memoryKind, address, bytes, name
    FROM CUPTI_ACTIVITY_KIND_MEMORY2
    UNION ALL BY NAME
    SELECT
        unnest([start, "end"]) AS timestamp_ns, processId, deviceId, contextId,
        unnest(['allocate', 'free']) AS operation,
        memoryKind, address, bytes, name
    FROM CUPTI_ACTIVITY_KIND_MEMORY
    WHERE NOT EXISTS (FROM CUPTI_ACTIVITY_KIND_MEMORY2)
)

SELECT
    row_number() OVER (
        ORDER BY o.timestamp_ns, o.operation = 'allocate', o.address, o.correlationId
    ) - 1 AS sequence,
    'cuda' AS allocator,
    o.timestamp_ns,
    coalesce(o.processId, r.process_id) AS process_id,
    nullif(o.deviceId & 4294967295, 4294967295) AS device_id,
    nullif(o.contextId & 4294967295, 4294967295) AS context_id,
    nullif(o.streamId & 4294967295, 4294967295) AS stream_id,
    nullif(o.correlationId, 0) AS correlation_id,
    o.operation,
    k.memory_kind,
    if(o.address < 0, o.address::HUGEINT + 18446744073709551616, o.address)::UBIGINT AS address,
    o.bytes,
    o.bytes AS requested_bytes,
    s.value AS name
FROM operations AS o
CROSS JOIN recording AS r
LEFT JOIN _memory_kind AS k ON k.code = o.memoryKind
LEFT JOIN StringTable AS s ON s._id_ = o.name AND o.name <> 0
WHERE o.timestamp_ns > 0
