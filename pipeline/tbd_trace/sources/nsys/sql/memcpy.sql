-- Copies, including migrations of unified memory, which have no correlation id. An unlisted number
-- of a kind becomes 'unknown'; a missing number stays NULL.
SELECT
    m.row AS memcpy_id,
    m.start AS start_ns,
    m."end" AS end_ns,
    span_ns(m.start, m."end") AS duration_ns,
    process_key(m.globalPid) AS process_id,
    TRY_CAST(m.deviceId AS INTEGER) AS device_id,
    m.contextId AS context_id,
    m.streamId AS stream_id,
    nullif(m.correlationId, 0) AS correlation_id,
    m.bytes,
    CASE WHEN m.copyKind IS NOT NULL THEN coalesce(copy.direction, 'unknown') END AS direction,
    CASE WHEN m.srcKind IS NOT NULL THEN coalesce(src.kind, 'unknown') END AS src_kind,
    CASE WHEN m.dstKind IS NOT NULL THEN coalesce(dst.kind, 'unknown') END AS dst_kind,
    TRY_CAST(applicable(m.srcDeviceId) AS INTEGER) AS src_device_id,
    TRY_CAST(applicable(m.dstDeviceId) AS INTEGER) AS dst_device_id,
    nullif(m.graphNodeId, 0) AS graph_node_id
FROM CUPTI_ACTIVITY_KIND_MEMCPY AS m
LEFT JOIN _copy_kind AS copy ON copy.id = m.copyKind
LEFT JOIN _memory_kind AS src ON src.id = m.srcKind
LEFT JOIN _memory_kind AS dst ON dst.id = m.dstKind
