-- Readings of the memory of the whole device.
SELECT
    $device AS device_id,
    t::HUGEINT * $time_unit AS timestamp_ns,
    used AS used_bytes,
    total AS total_bytes,
    reserved AS reserved_bytes
FROM memory_log
WHERE action = 'device'
