-- Kernels that start more than 10 us before an earlier kernel of their stream ends. A stream runs
-- its kernels one after the other; nodes of a CUDA graph are exempt. overlap_worst.sql evaluates
-- the result. Of large tables, only one in `$every` runs of 2,000 rows is checked, and with
-- overlap_longest.sql the kernels after the longest one of each stream.
SELECT kernel_id, process_id, device_id, context_id, stream_id, start_ns, end_ns, earlier_end_ns
FROM (
    SELECT *,
        max(end_ns) OVER (
            PARTITION BY run, process_id, device_id, context_id, stream_id
            ORDER BY start_ns, end_ns, kernel_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS earlier_end_ns
    FROM (
        SELECT kernel_id, process_id, device_id, context_id, stream_id, start_ns, end_ns,
            if($every = 1, 0, kernel_id // 2000) AS run
        FROM kernel
        WHERE duration_ns IS NOT NULL AND graph_node_id IS NULL AND stream_id IS NOT NULL
    )
    WHERE run % $every = 0
)
WHERE earlier_end_ns - start_ns > 10000
