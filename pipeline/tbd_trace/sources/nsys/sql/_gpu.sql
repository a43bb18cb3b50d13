-- GPUs listed in the file, in one layout. cuda_device is the CUDA number of the GPU, pid the
-- process
-- whose numbering it follows (NULL: unknown). Exports of 2020 describe GPUs in
-- TARGET_INFO_CUDA_GPU,
-- with the clock in kHz, the bandwidth in kB/s and, before 2020.5, the memory in MiB; their
-- TARGET_INFO_GPU has only names and PCI addresses.
WITH listed AS (
    SELECT
        coalesce(id, deviceId) AS gpu_id,
        cuDevice AS cuda_device,
        name,
        uuid,
        computeMajor AS major,
        computeMinor AS minor,
        smCount AS sm_count,
        clockRate AS clock_hz,
        totalMemory AS memory_bytes,
        memoryBandwidth AS memory_bandwidth_bytes_per_s,
        l2CacheSize AS l2_bytes,
        maxThreadsPerBlock AS max_threads_per_block,
        maxWarpsPerSm AS max_warps_per_sm,
        maxBlocksPerSm AS max_blocks_per_sm,
        maxRegistersPerBlock AS max_registers_per_block,
        maxRegistersPerSm AS max_registers_per_sm,
        maxShmemPerBlock AS max_shared_bytes_per_block,
        maxShmemPerBlockOptin AS max_shared_bytes_per_block_optin,
        maxShmemPerSm AS max_shared_bytes_per_sm
    FROM TARGET_INFO_GPU
    WHERE NOT EXISTS (SELECT 1 FROM TARGET_INFO_CUDA_GPU)
    UNION ALL BY NAME
    SELECT
        coalesce(bus.id, bus.deviceId) AS gpu_id,
        c.deviceId AS cuda_device,
        c.pid,
        c.name,
        c.computeCapabilityMajor AS major,
        c.computeCapabilityMinor AS minor,
        c.numMultiprocessors AS sm_count,
        -- Values below these limits are in the older units: no GPU has a clock below 100 MHz, 16
        -- MiB
        -- of memory or a bandwidth below 10 GB/s. As HUGEINT, products beyond 64 bits become NULL
        -- when they are written.
        c.coreClockRate::HUGEINT * CASE WHEN c.coreClockRate < 1e8 THEN 1000 ELSE 1 END AS clock_hz,
        c.globalMemorySize::HUGEINT
        * CASE WHEN c.globalMemorySize < 16777216 THEN 1048576 ELSE 1 END AS memory_bytes,
        c.globalMemoryBandwidth::HUGEINT
        * CASE
            WHEN c.globalMemoryBandwidth < 1e10 THEN 1000 ELSE 1
        END AS memory_bandwidth_bytes_per_s,
        c.l2CacheSize AS l2_bytes,
        c.maxThreadsPerBlock AS max_threads_per_block,
        c.maxWarpsPerMultiprocessor AS max_warps_per_sm,
        c.maxBlocksPerMultiprocessor AS max_blocks_per_sm,
        c.maxRegistersPerBlock AS max_registers_per_block,
        c.maxRegistersPerMultiprocessor AS max_registers_per_sm,
        c.maxSharedMemoryPerBlock AS max_shared_bytes_per_block,
        c.maxSharedMemoryPerMultiprocessor AS max_shared_bytes_per_sm
    FROM TARGET_INFO_CUDA_GPU AS c
    LEFT JOIN TARGET_INFO_GPU AS bus ON lower(bus.busLocation) = lower(c.pciBusId)
)

SELECT
    * EXCLUDE (major, minor),
    CASE WHEN major > 0 THEN major || '.' || coalesce(minor, 0) END AS compute_capability
FROM listed
-- Adapters that are not CUDA GPUs (integrated or software) have compute capability 0.0. Files in
-- which all adapters have 0.0 simply lack it, so all stay.
QUALIFY coalesce(major, 1) > 0 OR NOT coalesce(bool_or(major > 0) OVER (), false)
