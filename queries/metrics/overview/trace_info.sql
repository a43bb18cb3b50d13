/*
title    = "Trace information"
question = "What is this trace, and which tables does it contain and lack?"
grain    = "trace"
needs    = ["trace"]
optional = [
    "kernel", "kernel_aggregate", "memcpy", "memset", "graph_launch", "api_call", "nvtx_range",
    "kernel_metric", "process", "device",
]
[columns.trace_id]
doc = "the trace"
[columns.name]
doc = "file name, or capture directory and file name"
[columns.tool]
doc = "profiler that recorded the trace"
[columns.tool_version]
doc = "version of the profiler at capture time; NULL if the file does not record it"
[columns.export_version]
doc = "version of the tool that wrote this export; NULL if the file does not record it"
[columns.schema_version]
doc = "version of the file's schema; NULL if the file does not record it"
[columns.format]
doc = "reader that parsed the file"
[columns.kind]
doc = "timeline, metrics or summary"
[columns.capture_id]
doc = "capture that contains the file; NULL for a single file"
[columns.file_bytes]
unit = "byte"
doc = "size of the file"
[columns.sha256]
doc = """SHA-256 of the file; NULL for a file above 64 MiB, which is identified by samples of its
    content"""
[columns.duration_ns]
unit = "ns"
doc = "from the first event to the last; NULL without a time axis"
[columns.processes]
doc = "processes with events"
[columns.devices]
doc = "GPUs with operations, with name and compute capability if known"
[columns.kernels]
doc = "kernel executions, profiler summaries included"
[columns.kernel_ns]
unit = "ns"
doc = "sum of kernel durations; NULL if the file has none"
[columns.memcpys]
doc = "memory copies on the GPU"
[columns.memsets]
doc = "memory fills on the GPU"
[columns.graph_launches]
doc = "CUDA graphs traced as a whole, without their kernels"
[columns.api_calls]
doc = "CUDA, cuDNN, cuBLAS and operating-system calls"
[columns.nvtx_ranges]
doc = "NVTX ranges"
[columns.metrics]
doc = "distinct hardware counters and metrics"
[columns.holds]
doc = "canonical tables with rows"
[columns.lacks]
doc = "canonical tables without rows"
[columns.notes]
doc = "limitations that affect the metrics of this trace"
*/
WITH
executed AS (
    SELECT trace_id, count(*) AS kernels, sum(duration_ns)::BIGINT AS kernel_ns
    FROM kernel GROUP BY ALL
    UNION ALL
    SELECT trace_id, sum(instances)::BIGINT, sum(total_ns)::BIGINT
    FROM kernel_aggregate GROUP BY ALL
),
used AS (
    SELECT DISTINCT trace_id, process_id, device_id FROM kernel
    UNION SELECT DISTINCT trace_id, process_id, device_id FROM memcpy
    UNION SELECT DISTINCT trace_id, process_id, device_id FROM graph_launch
),
described AS (
    SELECT DISTINCT u.trace_id, u.device_id,
        u.device_id || ': ' || coalesce(d.name, 'unknown GPU')
        || coalesce(' (compute capability ' || d.compute_capability || ')', '') AS text
    FROM used u
    LEFT JOIN device d
        ON  d.trace_id = u.trace_id AND d.device_id = u.device_id
        -- A device without a process describes the device for all processes.
        AND (d.process_id IS NULL OR d.process_id = u.process_id)
    WHERE u.device_id IS NOT NULL
)
SELECT t.trace_id, t.name, t.tool, t.tool_version, t.export_version, t.schema_version, t.format,
    t.kind, t.capture_id, t.file_bytes, t.sha256, t.end_ns - t.start_ns AS duration_ns,
    (SELECT count(*) FROM process p WHERE p.trace_id = t.trace_id) AS processes,
    (SELECT string_agg(text, '; ' ORDER BY device_id, text)
     FROM described d WHERE d.trace_id = t.trace_id) AS devices,
    coalesce(
        (SELECT sum(kernels)::BIGINT FROM executed e WHERE e.trace_id = t.trace_id), 0) AS kernels,
    (SELECT sum(kernel_ns)::BIGINT FROM executed e WHERE e.trace_id = t.trace_id) AS kernel_ns,
    (SELECT count(*) FROM memcpy m WHERE m.trace_id = t.trace_id) AS memcpys,
    (SELECT count(*) FROM memset m WHERE m.trace_id = t.trace_id) AS memsets,
    (SELECT count(*) FROM graph_launch g WHERE g.trace_id = t.trace_id) AS graph_launches,
    (SELECT count(*) FROM api_call a WHERE a.trace_id = t.trace_id) AS api_calls,
    (SELECT count(*) FROM nvtx_range r WHERE r.trace_id = t.trace_id) AS nvtx_ranges,
    (SELECT count(DISTINCT metric) FROM kernel_metric m WHERE m.trace_id = t.trace_id) AS metrics,
    t.holds, t.lacks, t.notes
FROM trace t
ORDER BY t.name, t.trace_id
