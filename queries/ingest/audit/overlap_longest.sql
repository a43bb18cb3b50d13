-- Kernels that start more than 10 us before the longest kernel of their stream ends. With
-- overlap.sql, for large tables.
(
    WITH ran AS NOT MATERIALIZED (
        SELECT kernel_id, process_id, device_id, context_id, stream_id, start_ns, end_ns
        FROM kernel
        WHERE duration_ns IS NOT NULL AND graph_node_id IS NULL AND stream_id IS NOT NULL
    ),

    longest AS (
        SELECT process_id, device_id, context_id, stream_id, max(end_ns - start_ns) AS length_ns,
            arg_max(start_ns, end_ns - start_ns) AS earlier_start_ns
        FROM ran
        GROUP BY process_id, device_id, context_id, stream_id
    )

    SELECT r.*, l.earlier_start_ns + l.length_ns AS earlier_end_ns
    FROM longest AS l
    INNER JOIN ran AS r
        ON r.process_id IS NOT DISTINCT FROM l.process_id
        AND r.device_id IS NOT DISTINCT FROM l.device_id
        AND r.context_id IS NOT DISTINCT FROM l.context_id AND r.stream_id = l.stream_id
    WHERE r.start_ns > l.earlier_start_ns AND l.earlier_start_ns + l.length_ns - r.start_ns > 10000
)
