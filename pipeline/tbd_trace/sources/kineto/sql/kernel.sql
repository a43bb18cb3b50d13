-- Kernels; of an Ascend NPU, the tasks of its cores. Shared memory is the sum of static and
-- dynamic, stored as the latter.
SELECT
    e.event_id AS kernel_id,
    e.start_ns,
    e.start_ns + e.duration_ns AS end_ns,
    e.duration_ns,
    gpu_process(e.a.correlation, e.event_id) AS process_id,
    coalesce(e.a.device, if(e.a."Task Type" IS NULL, TRY_CAST(e.pid AS BIGINT), 0)) AS device_id,
    e.a.context AS context_id,
    coalesce(e.a.stream, stream_number(e.tid)) AS stream_id,
    nullif(e.a.correlation, 0) AS correlation_id,
    n.demangled AS name,
    n.short_name,
    n.mangled_name,
    e.a.grid[1] AS grid_x,
    e.a.grid[2] AS grid_y,
    e.a.grid[3] AS grid_z,
    e.a.block[1] AS block_x,
    e.a.block[2] AS block_y,
    e.a.block[3] AS block_z,
    e.a."registers per thread" AS registers_per_thread,
    e.a."shared memory" AS dynamic_shared_bytes,
    nullif(e.a."graph id", 0) AS graph_id,
    nullif(e.a."graph node id", 0) AS graph_node_id
FROM (
    SELECT *, json_transform(args, '{
        "device": "BIGINT", "context": "BIGINT", "stream": "BIGINT", "correlation": "BIGINT",
        "grid": ["BIGINT"], "block": ["BIGINT"], "registers per thread": "BIGINT",
        "shared memory": "BIGINT", "Task Type": "VARCHAR", "graph id": "BIGINT",
        "graph node id": "BIGINT"}') AS a
    FROM event WHERE kind = 'kernel'
) AS e
JOIN kernel_name AS n ON n.name = e.name
