-- Allocations and releases. An implausible size becomes NULL; the row stays.
SELECT
    * REPLACE (if(is_no_size(bytes), NULL, bytes) AS bytes),
    CASE
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'device memory allocations with implausible times: {}; removed'
        WHEN is_no_size(bytes)
            THEN 'device memory allocations with an implausible size: {}; it is NULL'
    END AS fault,
    NOT is_no_time(timestamp_ns, $middle) AS kept
FROM memory_event
