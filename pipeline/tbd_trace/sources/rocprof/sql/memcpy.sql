-- Copies. The operation names the direction (MEMORY_COPY_HOST_TO_DEVICE); memory of the host can
-- be pinned or pageable, which is not recorded.
SELECT
    row_number() OVER (ORDER BY c.part, c.id) AS memcpy_id,
    nullif(c.start_ns, 0) AS start_ns,
    nullif(c.end_ns, 0) AS end_ns,
    TRY(nullif(c.end_ns, 0) - nullif(c.start_ns, 0)) AS duration_ns,
    key_of(c.part, coalesce(p.pid, c.pid)) AS process_id,
    CASE WHEN s.is_gpu THEN s.device_id WHEN d.is_gpu THEN d.device_id END AS device_id,
    c.stream_id,
    nullif(coalesce(l.parent_id, c.call_id), 0) AS correlation_id,
    c.bytes,
    CASE
        WHEN s.is_gpu AND d.is_gpu AND s.device_id <> d.device_id THEN 'PtoP'
        WHEN contains(c.operation, 'HOST_TO_DEVICE') THEN 'HtoD'
        WHEN contains(c.operation, 'DEVICE_TO_HOST') THEN 'DtoH'
        WHEN contains(c.operation, 'DEVICE_TO_DEVICE') THEN 'DtoD'
        WHEN contains(c.operation, 'HOST_TO_HOST') THEN 'HtoH'
        ELSE 'unknown'
    END AS direction,
    if(s.is_gpu, 'device', 'unknown') AS src_kind,
    if(d.is_gpu, 'device', 'unknown') AS dst_kind,
    CASE WHEN s.is_gpu AND d.is_gpu THEN s.device_id END AS src_device_id,
    CASE WHEN s.is_gpu AND d.is_gpu THEN d.device_id END AS dst_device_id
FROM record_copy AS c
LEFT JOIN record_process AS p ON p.part = c.part AND p.id = c.pid
LEFT JOIN record_agent AS s ON s.part = c.part AND s.agent_id = c.src_agent_id
LEFT JOIN record_agent AS d ON d.part = c.part AND d.agent_id = c.dst_agent_id
LEFT JOIN _launching AS l ON l.part = c.part AND l.pid = c.pid AND l.call_id = c.call_id
