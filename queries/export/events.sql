/*
title    = "Events of a timeline"
question = "What happened on each thread and GPU stream, when, and which call caused it?"
grain    = """NVTX range or mark, call, GPU operation or iteration; unordered, because sorting all
    rows needs much memory"""
needs    = ["trace"]
optional = [
    "api_call", "annotation", "iteration", "op_scope", "gpu_op", "kernel",
    "memcpy", "memset", "cause_interval", "step_causes",
]
returns = [
    "row_kind", "process_id", "thread_id", "device_id", "lane", "start_ns", "end_ns", "category",
    "name", "flows", "full_name", "grid", "block", "registers_per_thread", "shared_bytes", "bytes",
    "memory", "layer", "phase", "iteration", "correlation_id",
]
[columns]
row_kind = "nvtx, range (start/end ranges, which may overlap), api, cause, gpu or iteration"
thread_id = "key of the thread; NULL on a GPU, for iterations, and for ranges across threads"
device_id = "device; NULL on the host"
lane = "row group within a thread or device: NVTX domain, API, causes or CUDA stream"
start_ns = "start"
end_ns = "end; NULL for an instant"
category = "kernel, memcpy, memset, graph, cuda, cudnn, cublas, osrt, nvtx, cause or iteration"
name = "name of the kernel, function or range, or cause of the state of a GPU"
flows = """for a call, numbers of the GPU operations it caused; for a GPU operation, its own number;
    NULL without any"""
full_name = "kernel name with template arguments, if it differs from name"
grid = "grid of a kernel, x y z"
block = "block of a kernel, x y z"
registers_per_thread = "registers per thread of a kernel"
shared_bytes = "static and dynamic shared memory per block"
bytes = {unit = "byte", doc = "bytes moved or filled"}
memory = "memory kinds copied from and to, or filled"
layer = "layer that owns a GPU operation"
phase = "phase of a GPU operation"
iteration = "iteration that owns a GPU operation, or number of the iteration"
correlation_id = "correlation id of a call or GPU operation"
*/
WITH
operation AS (
    SELECT o.*, g.context_id, g.correlation_id,
        -- Ids are unique per kind of operation only; four kinds share one number range.
        4 * o.op_id + CASE o.op_kind WHEN 'kernel' THEN 0 WHEN 'memcpy' THEN 1
            WHEN 'memset' THEN 2 ELSE 3 END AS flow
    FROM op_scope o
    JOIN gpu_op g ON g.trace_id = o.trace_id AND g.op_kind = o.op_kind AND g.op_id = o.op_id
),
caused AS (
    SELECT trace_id, api_call_id, list(flow ORDER BY flow) AS flows
    FROM operation WHERE api_call_id IS NOT NULL
    GROUP BY trace_id, api_call_id
),
event AS (
    SELECT 'gpu' AS row_kind, o.process_id, NULL::BIGINT AS thread_id, o.device_id,
        'Stream ' || coalesce(o.stream_id::VARCHAR, 'unknown')
            || coalesce(' (context ' || o.context_id || ')', '') AS lane,
        o.start_ns, o.end_ns, o.op_kind AS category, coalesce(l.label, o.name) AS name,
        CASE WHEN o.api_call_id IS NOT NULL THEN [o.flow] END AS flows,
        CASE WHEN k.name <> l.label THEN k.name END AS full_name,
        nullif(concat_ws(' ', k.grid_x, k.grid_y, k.grid_z), '') AS grid,
        nullif(concat_ws(' ', k.block_x, k.block_y, k.block_z), '') AS block,
        k.registers_per_thread::BIGINT AS registers_per_thread,
        k.static_shared_bytes + k.dynamic_shared_bytes AS shared_bytes, o.bytes,
        coalesce(nullif(concat_ws(' to ', m.src_kind, m.dst_kind), ''), f.memory_kind) AS memory,
        o.layer, o.phase, o.iteration, o.correlation_id
    FROM operation o
    LEFT JOIN kernel k
        ON o.op_kind = 'kernel' AND k.trace_id = o.trace_id AND k.kernel_id = o.op_id
    LEFT JOIN kernel_label l ON l.name = k.name
    LEFT JOIN memcpy m
        ON o.op_kind = 'memcpy' AND m.trace_id = o.trace_id AND m.memcpy_id = o.op_id
    LEFT JOIN memset f
        ON o.op_kind = 'memset' AND f.trace_id = o.trace_id AND f.memset_id = o.op_id
    UNION ALL BY NAME
    SELECT 'api' AS row_kind, a.process_id, a.thread_id,
        CASE a.api WHEN 'cuda' THEN 'CUDA' WHEN 'cudnn' THEN 'cuDNN' WHEN 'cublas' THEN 'cuBLAS'
             ELSE 'Operating system' END AS lane,
        a.start_ns, a.end_ns, a.api AS category, a.name, c.flows, a.correlation_id
    FROM api_call a LEFT JOIN caused c USING (trace_id, api_call_id)
    UNION ALL BY NAME
    -- Tables whose headers declare a timeline (queries/canonical).
    FROM timeline_event
    UNION ALL BY NAME
    SELECT 'iteration' AS row_kind, process_id, 'Iterations' AS lane, start_ns, end_ns,
        'iteration' AS category, coalesce(label, iteration::VARCHAR) AS name, iteration
    FROM iteration
    UNION ALL BY NAME
    SELECT 'cause' AS row_kind, nullif(i.process_id, -1) AS process_id,
        nullif(i.device_id, -1)::INTEGER AS device_id, 'Causes' AS lane, i.start_ns, i.end_ns,
        'cause' AS category, c.title AS name
    FROM cause_interval i JOIN step_causes c USING (cause)
)
SELECT row_kind, process_id, thread_id, device_id, lane, start_ns, end_ns, category, name, flows,
    full_name, grid, block, registers_per_thread, shared_bytes, bytes, memory, layer, phase,
    iteration, correlation_id
FROM event
