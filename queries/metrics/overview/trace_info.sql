/*
title    = "Trace information"
question = "What is this trace, and which tables does it contain and lack?"
grain    = "trace"
needs    = ["trace"]
optional = [
    "kernel", "kernel_aggregate", "memcpy", "memset", "graph_launch", "api_call", "nvtx_range",
    "kernel_metric", "process", "device",
]
returns = [
    "trace_id", "name", "tool", "tool_version", "export_version", "schema_version", "format",
    "kind", "capture_id", "file_bytes", "sha256", "duration_ns", "processes", "devices", "kernels",
    "kernel_ns", "memcpys", "memsets", "graph_launches", "api_calls", "nvtx_ranges", "metrics",
    "holds", "lacks", "notes",
]
[columns]
trace_id = "the trace"
name = "file name, or capture directory and file name"
tool = "profiler that recorded the trace"
tool_version = "version of the profiler at capture time; NULL if the file does not record it"
export_version = "version of the tool that wrote this export; NULL if the file does not record it"
schema_version = "version of the file's schema; NULL if the file does not record it"
format = "reader that parsed the file"
kind = "timeline, metrics or summary"
capture_id = "capture that contains the file; NULL for a single file"
file_bytes = "size of the file"
sha256 = """SHA-256 of the file; NULL for a file above 64 MiB, which is identified by samples of its
    content"""
duration_ns = "from the first event to the last; NULL without a time axis"
processes = "processes with events"
devices = "GPUs with operations, with name and compute capability if known"
kernels = "kernel executions, profiler summaries included"
kernel_ns = "sum of kernel durations; NULL if the file has none"
memcpys = "memory copies on the GPU"
memsets = "memory fills on the GPU"
graph_launches = "CUDA graphs traced as a whole, without their kernels"
api_calls = "CUDA, cuDNN, cuBLAS and operating-system calls"
nvtx_ranges = "NVTX ranges"
metrics = "distinct hardware counters and metrics"
notes = "limitations that affect the metrics of this trace"
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
