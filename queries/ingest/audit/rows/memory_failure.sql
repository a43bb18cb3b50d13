-- Allocations that failed. Implausible sizes and times become NULL.
SELECT
    * REPLACE (
        if(is_no_size(requested_bytes), NULL, requested_bytes) AS requested_bytes,
        if(is_no_size(device_free_bytes), NULL, device_free_bytes) AS device_free_bytes,
        if(is_no_time(timestamp_ns, $middle), NULL, timestamp_ns) AS timestamp_ns
    ),
    CASE
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'failed allocations with implausible times: {}; they are NULL'
        WHEN is_no_size(requested_bytes) OR is_no_size(device_free_bytes)
            THEN 'failed allocations with an implausible size: {}; it is NULL'
    END AS fault,
    true AS kept
FROM memory_failure
