-- Kernels that start more than 10 us before an earlier kernel of their stream ends. A stream runs
-- its kernels one after the other; nodes of a CUDA graph are exempt. overlap_worst.sql judges the
-- result. For large tables, only one in `$every` runs of 2,000 rows and the kernels after the
-- longest one of each stream are checked.
WITH ran AS NOT MATERIALIZED (
    SELECT kernel_id, process_id, device_id, context_id, stream_id, start_ns, end_ns,
        if($every = 1, 0, kernel_id // 2000) AS run
    FROM kernel
    WHERE duration_ns IS NOT NULL AND graph_node_id IS NULL AND stream_id IS NOT NULL
),

followed AS (
    SELECT *,
        max(end_ns) OVER (
            PARTITION BY run, process_id, device_id, context_id, stream_id
            ORDER BY start_ns, end_ns, kernel_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS earlier_end_ns
    FROM ran
    WHERE run % $every = 0
),

longest AS (
    SELECT process_id, device_id, context_id, stream_id, max(end_ns - start_ns) AS length_ns,
        arg_max(start_ns, end_ns - start_ns) AS earlier_start_ns
    FROM ran
    WHERE $every > 1
    GROUP BY process_id, device_id, context_id, stream_id
)

SELECT kernel_id, process_id, device_id, context_id, stream_id, start_ns, end_ns, earlier_end_ns
FROM followed
WHERE earlier_end_ns - start_ns > 10000
UNION
SELECT r.* EXCLUDE (run), l.earlier_start_ns + l.length_ns
FROM longest AS l
INNER JOIN ran AS r
    ON r.process_id IS NOT DISTINCT FROM l.process_id
    AND r.device_id IS NOT DISTINCT FROM l.device_id
    AND r.context_id IS NOT DISTINCT FROM l.context_id AND r.stream_id = l.stream_id
WHERE r.start_ns > l.earlier_start_ns AND l.earlier_start_ns + l.length_ns - r.start_ns > 10000
