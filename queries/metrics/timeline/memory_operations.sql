/*
title    = "Memory operations"
question = "How much time and bandwidth do copies and fills take?"
source   = "same sums as nsys stats cuda_gpu_mem_time_sum and cuda_gpu_mem_size_sum"
grain    = "kind of memory operation, per trace"
needs    = ["trace"]
optional = ["memcpy", "memset"]
partial  = true
reduce   = "concat"
[columns]
trace_id = "the trace"
operation = "[CUDA memcpy HtoD], [CUDA memset], …"
src_kind = "kind of the source memory; NULL for fills, and if the tool does not record it"
dst_kind = "kind of the destination memory; NULL if the tool does not record it"
instances = "number of operations"
total_ns = "sum of the durations of these copies and fills"
mean_ns = "mean duration"
median_ns = "median duration"
min_ns = "shortest"
max_ns = "longest"
stddev_ns = "sample standard deviation; NULL for a single operation"
share_pct = "total ÷ total of all memory operations of the trace"
total_bytes = "bytes moved or filled"
throughput_gb_s = {unit = "GB/s", doc = """bytes ÷ time, 10^9 bytes per second; NULL without
    durations"""}
[params.by]
doc = """operation: one row per direction; memory_kind: one row per direction and memory kinds
    (pageable, pinned, device, …)"""
choices = ["operation", "memory_kind"]
default = "operation"
[plot]
kind = "barh"
x = ["operation", "src_kind", "dst_kind"]
y = [["total_ns"], ["total_bytes"]]
*/
WITH
operation AS (
    SELECT trace_id, '[CUDA memcpy ' || coalesce(direction, 'unknown') || ']' AS operation,
        src_kind, dst_kind, duration_ns, bytes
    FROM memcpy
    UNION ALL
    SELECT trace_id, '[CUDA memset]', NULL, memory_kind, duration_ns, bytes FROM memset
),
grouped AS (
    SELECT trace_id, operation,
        CASE WHEN by_kind THEN src_kind END AS src_kind,
        CASE WHEN by_kind THEN dst_kind END AS dst_kind,
        duration_ns, bytes
    FROM operation, (SELECT getvariable('by') = 'memory_kind' AS by_kind)
)
SELECT trace_id, operation, src_kind, dst_kind, count(*) AS instances,
    sum(duration_ns)::BIGINT AS total_ns, avg(duration_ns) AS mean_ns,
    median(duration_ns)::DOUBLE AS median_ns, min(duration_ns) AS min_ns,
    max(duration_ns) AS max_ns,
    -- Integer sums are exact, so the result does not depend on the order of rows.
    sqrt((count(duration_ns) * sum(duration_ns::HUGEINT * duration_ns)
            - sum(duration_ns)::HUGEINT * sum(duration_ns))
        / nullif(count(duration_ns) * (count(duration_ns) - 1.0), 0)) AS stddev_ns,
    100.0 * sum(duration_ns)
        / nullif(sum(sum(duration_ns)) OVER (PARTITION BY trace_id), 0) AS share_pct,
    sum(bytes)::BIGINT AS total_bytes,
    -- 1 byte/ns is 1 GB/s. Only operations with both values count.
    sum(bytes) FILTER (duration_ns IS NOT NULL)
        / nullif(sum(duration_ns) FILTER (bytes IS NOT NULL), 0)::DOUBLE AS throughput_gb_s
FROM grouped
GROUP BY trace_id, operation, src_kind, dst_kind
ORDER BY trace_id, total_ns DESC NULLS LAST, operation, src_kind, dst_kind
