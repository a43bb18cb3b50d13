/*
title    = "GPU operations"
question = "Which kernels, copies, fills and whole graphs ran on the GPUs?"
grain    = "GPU operation of a timeline"
needs    = ["trace"]
optional = ["kernel", "memcpy", "memset", "graph_launch"]
[columns.trace_id]
doc = "the trace"
[columns.op_kind]
doc = "kernel, memcpy, memset or graph (a CUDA graph traced as a whole)"
[columns.op_id]
doc = "kernel_id, memcpy_id, memset_id or graph_launch_id"
[columns.start_ns]
unit = "ns"
doc = "start on the GPU; operations without a time, or with an end before their start, are excluded"
[columns.end_ns]
unit = "ns"
doc = "end on the GPU"
[columns.duration_ns]
unit = "ns"
doc = "end - start"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device"
[columns.context_id]
doc = "CUDA context"
[columns.stream_id]
doc = "CUDA stream"
[columns.correlation_id]
doc = "joins (with process_id) to the launching call"
[columns.name]
doc = "kernel name, or [CUDA memcpy HtoD], [CUDA memset], [CUDA graph]"
[columns.bytes]
unit = "byte"
doc = "bytes copied or filled; NULL for kernels and graphs"
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
