-- Live bytes after each event, and before the first one of each device.
SELECT
    process_id,
    CASE WHEN NOT is_host THEN device_id END AS device_id,
    'torch' AS allocator,
    CASE WHEN is_host THEN 'pageable' ELSE 'device' END AS memory_kind,
    sequence,
    total_allocated AS requested_bytes,
    total_allocated AS allocated_bytes,
    CASE WHEN NOT is_host THEN total_reserved END AS reserved_bytes
FROM _memory
UNION ALL
SELECT
    process_id,
    CASE WHEN NOT is_host THEN device_id END AS device_id,
    'torch' AS allocator,
    CASE WHEN is_host THEN 'pageable' ELSE 'device' END AS memory_kind,
    -1 AS sequence,
    greatest(total_allocated - bytes, 0) AS requested_bytes,
    greatest(total_allocated - bytes, 0) AS allocated_bytes,
    NULL AS reserved_bytes
FROM _memory
QUALIFY sequence = min(sequence) OVER (PARTITION BY process_id, is_host, device_id)
