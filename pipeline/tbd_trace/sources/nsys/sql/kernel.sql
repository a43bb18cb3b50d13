-- Kernels. CUPTI writes 0 for a missing graph or correlation id.
SELECT
    k.row AS kernel_id,
    k.start AS start_ns,
    k."end" AS end_ns,
    span_ns(k.start, k."end") AS duration_ns,
    process_key(k.globalPid) AS process_id,
    TRY_CAST(k.deviceId AS INTEGER) AS device_id,
    k.contextId AS context_id,
    k.streamId AS stream_id,
    nullif(k.correlationId, 0) AS correlation_id,
    coalesce(demangled.name, mangled.name, short.name, CAST('unknown' AS _name_text)) AS name,
    short.name AS short_name,
    mangled.name AS mangled_name,
    k.gridX AS grid_x,
    k.gridY AS grid_y,
    k.gridZ AS grid_z,
    k.blockX AS block_x,
    k.blockY AS block_y,
    k.blockZ AS block_z,
    TRY_CAST(k.registersPerThread AS INTEGER) AS registers_per_thread,
    k.staticSharedMemory AS static_shared_bytes,
    k.dynamicSharedMemory AS dynamic_shared_bytes,
    k.sharedMemoryExecuted AS shared_executed_bytes,
    k.localMemoryPerThread AS local_bytes_per_thread,
    nullif(k.graphId, 0) AS graph_id,
    nullif(k.graphNodeId, 0) AS graph_node_id
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
LEFT JOIN _name AS demangled ON demangled.id = k.demangledName
LEFT JOIN _name AS short ON short.id = k.shortName
LEFT JOIN _name AS mangled ON mangled.id = k.mangledName
