-- Readings of a device's memory. Without a time they are kept.
WITH evaluated AS (
    SELECT *,
        is_no_size(used_bytes) OR is_no_size(total_bytes) OR is_no_size(reserved_bytes)
            AS has_no_size,
        is_no_time(timestamp_ns, $middle) AS has_no_time
    FROM memory_device
)

SELECT
    * EXCLUDE (has_no_size, has_no_time) REPLACE (
        if(has_no_time, NULL, timestamp_ns) AS timestamp_ns
    ),
    CASE
        WHEN has_no_size THEN 'readings of device memory with an implausible size: {}; removed'
        WHEN has_no_time
            THEN 'readings of device memory with implausible times: {}; they are NULL'
    END AS fault,
    has_no_size IS NOT TRUE AS kept
FROM evaluated
