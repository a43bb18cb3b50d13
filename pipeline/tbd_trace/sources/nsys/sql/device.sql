-- One row per device with operations, and per other GPU with a known number. A property is known
-- only if all GPUs that the number may mean agree: for four equal GPUs that all claim number 0, the
-- model is known but the GPU is not. process_id is NULL if a single process uses the number, or all
-- processes mean the same GPU by it.
WITH wanted AS (
    SELECT process_id, device_id FROM _device_use
    UNION ALL
    SELECT DISTINCT NULL AS process_id, device_id
    FROM _device_numbering
    WHERE
        device_id NOT IN (SELECT device_id FROM _device_use)
        AND (rank < 4 OR (SELECT count(*) FROM _gpu) = 1)
),

matched AS (
    SELECT w.process_id, n.* REPLACE (w.device_id AS device_id)
    FROM wanted AS w
    LEFT JOIN
        _device_numbering AS n
        ON
            n.device_id = w.device_id
            AND (n.pid IS NULL OR w.process_id IS NULL OR n.pid = process_number(w.process_id))
    QUALIFY n.rank IS NOT DISTINCT FROM min(n.rank) OVER (PARTITION BY w.process_id, w.device_id)
),

resolved AS (
    SELECT
        process_id,
        device_id,
        agreed(gpu_id) AS gpu_id,
        agreed(nullif(trim(name), '')) AS name,
        agreed(nullif(uuid, '00000000-0000-0000-0000-000000000000')) AS uuid,
        agreed(compute_capability) AS compute_capability,
        agreed(known(sm_count)) AS sm_count,
        agreed(known(clock_hz)) AS clock_hz,
        agreed(known(memory_bytes)) AS memory_bytes,
        agreed(known(memory_bandwidth_bytes_per_s)) AS memory_bandwidth_bytes_per_s,
        agreed(known(l2_bytes)) AS l2_bytes,
        agreed(known(max_threads_per_block)) AS max_threads_per_block,
        agreed(known(max_warps_per_sm)) AS max_warps_per_sm,
        agreed(known(max_blocks_per_sm)) AS max_blocks_per_sm,
        agreed(known(max_registers_per_block)) AS max_registers_per_block,
        agreed(known(max_registers_per_sm)) AS max_registers_per_sm,
        agreed(known(max_shared_bytes_per_block)) AS max_shared_bytes_per_block,
        agreed(known(max_shared_bytes_per_block_optin)) AS max_shared_bytes_per_block_optin,
        agreed(known(max_shared_bytes_per_sm)) AS max_shared_bytes_per_sm
    FROM matched
    GROUP BY process_id, device_id
)

SELECT DISTINCT ON (process_id, device_id) *
FROM (
    SELECT
        * REPLACE (
            CASE
                WHEN count(*) OVER same_number = 1 THEN NULL
                WHEN
                    gpu_id IS NOT NULL
                    AND count(DISTINCT {'gpu': gpu_id, 'uuid': uuid, 'sms': sm_count})
                    OVER same_number = 1
                    THEN NULL
                ELSE process_id
            END AS process_id
        )
    FROM resolved
    WINDOW same_number AS (PARTITION BY device_id)
)
ORDER BY device_id, process_id
