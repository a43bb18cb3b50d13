-- GPUs: sizes of the description that rocprofv3 takes from the driver; the clock is in MHz.
SELECT
    CASE WHEN (SELECT max(part) FROM record_agent) > 0 THEN key_of(a.part, p.pid) END AS process_id,
    a.device_id,
    a.name,
    nullif(a.d.cu_count, 0) AS sm_count,
    nullif(a.d.max_engine_clk_fcompute, 0) * 1000000 AS clock_hz,
    nullif(list_sum(list_transform(a.d.mem_banks, lambda bank: bank.size_in_bytes)), 0)::BIGINT
        AS memory_bytes,
    nullif(a.d.workgroup_max_size, 0) AS max_threads_per_block,
    nullif(a.d.max_waves_per_cu, 0) AS max_warps_per_sm,
    nullif(a.d.lds_size_in_kb, 0) * 1024 AS max_shared_bytes_per_sm
FROM (
    SELECT *, json_transform(properties, '{
        "cu_count": "BIGINT", "max_engine_clk_fcompute": "BIGINT", "workgroup_max_size": "BIGINT",
        "max_waves_per_cu": "BIGINT", "lds_size_in_kb": "BIGINT",
        "mem_banks": [{"size_in_bytes": "HUGEINT"}]}') AS d
    FROM record_agent WHERE is_gpu
) AS a
LEFT JOIN (SELECT part, min(pid) AS pid FROM record_process GROUP BY part) AS p ON p.part = a.part
