-- Allocations and releases of device memory (--cuda-memory-usage=true).
SELECT
    row_number() OVER (ORDER BY m.start, m.number) - 1 AS sequence,
    m.start AS timestamp_ns,
    process_key(m.globalPid) AS process_id,
    TRY_CAST(applicable(m.deviceId) AS INTEGER) AS device_id,
    m.contextId AS context_id,
    applicable(m.streamId) AS stream_id,
    nullif(m.correlationId, 0) AS correlation_id,
    'cuda' AS allocator,
    CASE m.memoryOperationType WHEN 0 THEN 'allocate' WHEN 1 THEN 'free' END AS operation,
    CASE WHEN m.memKind IS NOT NULL THEN coalesce(memory.kind, 'unknown') END AS memory_kind,
    -- SQLite integers are signed: addresses from 2^63 on are negative in the file.
    CASE
        WHEN m.address < 0 THEN CAST(m.address::HUGEINT + 18446744073709551616 AS UBIGINT)
        ELSE CAST(m.address AS UBIGINT)
    END AS address,
    m.bytes,
    m.bytes AS requested_bytes,
    -- Pools of cudaMallocAsync; 0 without one.
    '0x' || lower(hex(nullif(coalesce(
        nullif(m.localMemoryPoolAddress, 0), m.importedMemoryPoolAddress
    ), 0))) AS pool,
    nullif(m.name, '') AS name
FROM (
    SELECT *, row_number() OVER () AS number FROM CUDA_GPU_MEMORY_USAGE_EVENTS
) AS m
LEFT JOIN _memory_kind AS memory ON memory.id = m.memKind
WHERE m.start IS NOT NULL
