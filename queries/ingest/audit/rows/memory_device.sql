-- Readings of a device's memory. Without a time they are kept.
SELECT
    * REPLACE (if(is_no_time(timestamp_ns, $middle), NULL, timestamp_ns) AS timestamp_ns),
    CASE
        WHEN is_no_size(used_bytes) OR is_no_size(total_bytes) OR is_no_size(reserved_bytes)
            THEN 'readings of device memory with an implausible size: {}; removed'
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'readings of device memory with implausible times: {}; they are NULL'
    END AS fault,
    NOT coalesce(is_no_size(used_bytes) OR is_no_size(total_bytes) OR is_no_size(reserved_bytes),
        false) AS kept
FROM memory_device
