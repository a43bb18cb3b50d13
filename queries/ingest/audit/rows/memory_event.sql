-- Allocations and releases. A size that cannot be is NULL, the row stays.
SELECT
    * REPLACE (if(is_no_size(bytes), NULL, bytes) AS bytes),
    CASE
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'allocations of device memory with times that cannot be: {}; left out'
        WHEN is_no_size(bytes)
            THEN 'allocations of device memory with a size that cannot be: {}; it is left out'
    END AS fault,
    NOT is_no_time(timestamp_ns, $middle) AS kept
FROM memory_event
