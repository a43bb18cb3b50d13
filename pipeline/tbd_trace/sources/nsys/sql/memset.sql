-- Memory fills. Kinds as in memcpy.sql.
SELECT
    m.row AS memset_id,
    m.start AS start_ns,
    m."end" AS end_ns,
    span_ns(m.start, m."end") AS duration_ns,
    process_key(m.globalPid) AS process_id,
    TRY_CAST(m.deviceId AS INTEGER) AS device_id,
    m.contextId AS context_id,
    m.streamId AS stream_id,
    nullif(m.correlationId, 0) AS correlation_id,
    m.bytes,
    CASE WHEN m.memKind IS NOT NULL THEN coalesce(memory.kind, 'unknown') END AS memory_kind,
    nullif(m.graphNodeId, 0) AS graph_node_id
FROM CUPTI_ACTIVITY_KIND_MEMSET AS m
LEFT JOIN _memory_kind AS memory ON memory.id = m.memKind
