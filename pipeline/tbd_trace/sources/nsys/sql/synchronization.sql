-- Synchronizations. CUPTI records only their context, and the export writes device 0; the device is
-- therefore that of the context.
SELECT
    s.row AS synchronization_id,
    s.start AS start_ns,
    s."end" AS end_ns,
    process_key(s.globalPid) AS process_id,
    coalesce(context.device_id, TRY_CAST(known(applicable(s.deviceId)) AS INTEGER)) AS device_id,
    applicable(s.contextId) AS context_id,
    applicable(s.streamId) AS stream_id,
    nullif(s.correlationId, 0) AS correlation_id,
    CASE WHEN s.syncType IS NOT NULL THEN coalesce(kind.sync_type, 'unknown') END AS sync_type
FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION AS s
LEFT JOIN _sync_type AS kind ON kind.id = s.syncType
LEFT JOIN
    _context AS context
    ON context.process_id = process_key(s.globalPid) AND context.context_id = s.contextId
