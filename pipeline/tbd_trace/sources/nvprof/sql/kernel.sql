-- Kernels. Records do not contain the process: if the recording has one process, it is that one,
-- else unknown. CUPTI writes 0 for a missing time, and for "not in a graph".
SELECT
    k.kernel_id,
    nullif(k.start, 0) AS start_ns,
    nullif(k."end", 0) AS end_ns,
    TRY(nullif(k."end", 0) - nullif(k.start, 0)) AS duration_ns,
    r.process_id,
    k.deviceId AS device_id,
    k.contextId AS context_id,
    k.streamId AS stream_id,
    nullif(k.correlationId, 0) AS correlation_id,
    coalesce(n.name, 'unnamed kernel') AS name,
    n.short_name,
    n.mangled_name,
    k.gridX AS grid_x,
    k.gridY AS grid_y,
    k.gridZ AS grid_z,
    k.blockX AS block_x,
    k.blockY AS block_y,
    k.blockZ AS block_z,
    k.registersPerThread AS registers_per_thread,
    k.staticSharedMemory AS static_shared_bytes,
    k.dynamicSharedMemory AS dynamic_shared_bytes,
    k.sharedMemoryExecuted AS shared_executed_bytes,
    k.localMemoryPerThread AS local_bytes_per_thread,
    nullif(k.graphId, 0) AS graph_id,
    nullif(k.graphNodeId, 0) AS graph_node_id
FROM _kernel AS k
CROSS JOIN recording AS r
LEFT JOIN kernel_name AS n ON n.string_id = k.name
