-- Segments of an allocator.
SELECT
    *,
    CASE
        WHEN is_no_size(total_bytes) OR is_no_size(allocated_bytes) OR is_no_size(active_bytes)
            OR is_no_size(requested_bytes)
            THEN 'segments with an implausible size: {}; removed'
    END AS fault,
    fault IS NULL AS kept
FROM memory_segment
