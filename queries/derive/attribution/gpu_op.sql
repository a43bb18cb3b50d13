/*
title    = "GPU operations"
question = "Which kernels, copies, fills and whole graphs ran on the GPUs?"
grain    = "GPU operation of a timeline"
needs    = ["trace"]
optional = ["kernel", "memcpy", "memset", "graph_launch"]
returns = [
    "trace_id", "op_kind", "op_id", "start_ns", "end_ns", "duration_ns", "process_id", "device_id",
    "context_id", "stream_id", "correlation_id", "name", "bytes",
]
[columns]
trace_id = "the trace"
op_kind = "kernel, memcpy, memset or graph (a CUDA graph traced as a whole)"
op_id = "kernel_id, memcpy_id, memset_id or graph_launch_id"
start_ns = """start on the GPU; operations without a time, or with an end before their start, are
    excluded"""
end_ns = "end on the GPU"
duration_ns = "end - start"
device_id = "device"
correlation_id = "joins (with process_id) to the launching call"
name = "kernel name, or [CUDA memcpy HtoD], [CUDA memset], [CUDA graph]"
bytes = {unit = "byte", doc = "bytes copied or filled; NULL for kernels and graphs"}
[advice]
missing = "needs GPU operations; {timeline}"
gpu_work = "GPU operations"
*/
SELECT trace_id, 'kernel' AS op_kind, kernel_id AS op_id, start_ns, end_ns, duration_ns,
       process_id, device_id, context_id, stream_id, correlation_id, name, NULL::BIGINT AS bytes
FROM kernel
-- Times of a metric run say nothing about the program, because it replays its kernels one by one.
WHERE end_ns >= start_ns
  AND trace_id IN (SELECT trace_id FROM trace WHERE kind = 'timeline')
UNION ALL
SELECT trace_id, 'memcpy', memcpy_id, start_ns, end_ns, duration_ns,
       process_id, device_id, context_id, stream_id, correlation_id,
       '[CUDA memcpy ' || coalesce(direction, 'unknown') || ']', bytes
FROM memcpy
WHERE end_ns >= start_ns
UNION ALL
SELECT trace_id, 'memset', memset_id, start_ns, end_ns, duration_ns,
       process_id, device_id, context_id, stream_id, correlation_id, '[CUDA memset]', bytes
FROM memset
WHERE end_ns >= start_ns
UNION ALL
SELECT trace_id, 'graph', graph_launch_id, start_ns, end_ns, duration_ns,
       process_id, device_id, context_id, stream_id, correlation_id, '[CUDA graph]', NULL
FROM graph_launch
