-- Totals of an allocator.
SELECT
    * REPLACE (
        if(is_no_size(requested_bytes), NULL, requested_bytes) AS requested_bytes,
        if(is_no_size(allocated_bytes), NULL, allocated_bytes) AS allocated_bytes,
        if(is_no_size(reserved_bytes), NULL, reserved_bytes) AS reserved_bytes
    ),
    CASE
        WHEN is_no_size(requested_bytes) OR is_no_size(allocated_bytes)
            OR is_no_size(reserved_bytes)
            THEN 'totals of an allocator with an implausible size: {}; it is NULL'
    END AS fault,
    true AS kept
FROM memory_total
