-- GPUs. CUPTI gives clocks in kHz and bandwidth in 1000 byte/s. The file contains only the device
-- numbering of its process, which therefore also identifies the physical GPU. As HUGEINT, products
-- beyond 64 bits become NULL when they are written.
SELECT
    d.id AS device_id,
    d.id AS gpu_id,
    s.value AS name,
    if(
        octet_length(d.uuid) = 16 AND d.uuid <> repeat('\x00', 16)::BLOB,
        hex(d.uuid)::UUID::VARCHAR,
        NULL
    ) AS uuid,
    d.computeCapabilityMajor || '.' || d.computeCapabilityMinor AS compute_capability,
    d.numMultiprocessors AS sm_count,
    nullif(d.coreClockRate, 0)::HUGEINT * 1000 AS clock_hz,
    nullif(d.globalMemorySize, 0) AS memory_bytes,
    nullif(d.globalMemoryBandwidth, 0)::HUGEINT * 1000 AS memory_bandwidth_bytes_per_s,
    nullif(d.l2CacheSize, 0) AS l2_bytes,
    d.maxThreadsPerBlock AS max_threads_per_block,
    d.maxWarpsPerMultiprocessor AS max_warps_per_sm,
    d.maxBlocksPerMultiprocessor AS max_blocks_per_sm,
    d.maxRegistersPerBlock AS max_registers_per_block,
    d.maxRegistersPerMultiprocessor AS max_registers_per_sm,
    d.maxSharedMemoryPerBlock AS max_shared_bytes_per_block,
    d.maxSharedMemoryPerMultiprocessor AS max_shared_bytes_per_sm
FROM CUPTI_ACTIVITY_KIND_DEVICE AS d
LEFT JOIN StringTable AS s ON s._id_ = d.name AND d.name <> 0
WHERE d.id IS NOT NULL
