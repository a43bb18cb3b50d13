-- The size of a block after rounding; the requested size is not recorded.
SELECT
    sequence,
    timestamp_ns,
    process_id,
    CASE WHEN NOT is_host THEN device_id END AS device_id,
    CASE WHEN bytes >= 0 THEN 'allocate' ELSE 'free' END AS operation,
    'torch' AS allocator,
    CASE WHEN is_host THEN 'pageable' ELSE 'device' END AS memory_kind,
    address,
    abs(bytes) AS bytes,
    abs(bytes) AS allocated_bytes
FROM _memory
