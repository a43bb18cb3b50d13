-- Devices that operations ran on, by process, and those of contexts without operations. Where some
-- operation does not name its process, the device is that of every process.
FROM (
    SELECT DISTINCT
        process_key(globalPid) AS process_id,
        TRY_CAST(applicable(deviceId) AS INTEGER) AS device_id
    FROM operation_scope
    WHERE has_device
    UNION
    SELECT process_id, device_id FROM _context
)
WHERE device_id IS NOT NULL
QUALIFY process_id IS NULL OR NOT bool_or(process_id IS NULL) OVER (PARTITION BY device_id)
