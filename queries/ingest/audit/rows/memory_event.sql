-- Memory events. Implausible sizes and times become NULL; the row stays, because later events
-- depend on it.
SELECT
    * REPLACE (
        if(is_no_size(bytes), NULL, bytes) AS bytes,
        if(is_no_size(requested_bytes), NULL, requested_bytes) AS requested_bytes,
        if(is_no_size(allocated_bytes), NULL, allocated_bytes) AS allocated_bytes,
        if(is_no_time(timestamp_ns, $middle), NULL, timestamp_ns) AS timestamp_ns
    ),
    CASE
        WHEN is_no_time(timestamp_ns, $middle)
            THEN 'memory events with implausible times: {}; they are NULL'
        WHEN is_no_size(bytes) OR is_no_size(requested_bytes) OR is_no_size(allocated_bytes)
            THEN 'memory events with an implausible size: {}; it is NULL'
    END AS fault,
    true AS kept
FROM memory_event
