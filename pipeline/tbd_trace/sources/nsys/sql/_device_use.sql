-- Devices by process: those of its operations, and those of its contexts without operations. If
-- any operation on a device lacks its process, the device gets one row, with process NULL.
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
