-- Memory fills. The memory kind is recorded from version 9 on.
SELECT
    row_number() OVER (ORDER BY m._id_) AS memset_id,
    nullif(m.start, 0) AS start_ns,
    nullif(m."end", 0) AS end_ns,
    TRY(nullif(m."end", 0) - nullif(m.start, 0)) AS duration_ns,
    r.process_id,
    m.deviceId AS device_id,
    m.contextId AS context_id,
    m.streamId AS stream_id,
    nullif(m.correlationId, 0) AS correlation_id,
    m.bytes,
    k.memory_kind,
    nullif(m.graphNodeId, 0) AS graph_node_id
FROM CUPTI_ACTIVITY_KIND_MEMSET AS m
CROSS JOIN recording AS r
LEFT JOIN _memory_kind AS k ON k.code = m.memoryKind
