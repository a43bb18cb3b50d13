/*
title    = "GPU time by innermost NVTX range"
question = "Which operators, or other annotated parts of the program, launch the longest kernels?"
source   = """exclusive time: an operation belongs to the innermost range around its launch, as in
    column Self CUDA of the PyTorch profiler"""
grain    = "domain, name and style of NVTX ranges, per trace"
needs    = ["annotation", "nvtx_range", "gpu_op"]
optional = ["self_operation", "innermost_name"]
reduce   = "concat"
returns = [
    "trace_id", "range_name", "style", "instances", "kernels", "gpu_ns", "mean_ns", "share_pct",
    "kernel_name", "kernel_pct", "memory_operations", "memory_ns",
]
[columns]
range_name = "domain:name, or the name in the default domain; NULL for launches outside all ranges"
style = "push_pop or start_end"
instances = "ranges that are innermost around a launch"
kernels = "kernels launched directly in the ranges (a CUDA graph traced as a whole counts as one)"
gpu_ns = "sum of the kernel durations; launches inside nested ranges count there only"
mean_ns = "gpu_ns ÷ instances"
share_pct = "gpu_ns ÷ its sum over all rows of the trace"
kernel_name = "kernel with the largest part of gpu_ns"
kernel_pct = "share of this kernel in gpu_ns"
memory_operations = "copies and fills launched directly in the ranges"
memory_ns = "sum of the durations of these copies and fills"
[plot]
kind = "barh"
x = ["range_name", "style"]
y = ["share_pct"]
limit = 30
*/
WITH
by_range AS (
    SELECT trace_id, domain, range_name, style,
        coalesce(sum(operations) FILTER (is_kernel), 0)::BIGINT AS kernels,
        coalesce(sum(total_ns) FILTER (is_kernel), 0)::BIGINT AS gpu_ns,
        max({'ns': total_ns, 'name': op_name}) FILTER (is_kernel) AS largest,
        coalesce(sum(operations) FILTER (NOT is_kernel), 0)::BIGINT AS memory_operations,
        coalesce(sum(total_ns) FILTER (NOT is_kernel), 0)::BIGINT AS memory_ns
    FROM (SELECT *, op_kind IN ('kernel', 'graph') AS is_kernel FROM self_operation)
    GROUP BY ALL
),
-- Every range with a launch counts, so that mean_ns is per execution of the range.
range_count AS (
    SELECT trace_id, domain, name, kind, count(*) AS instances FROM innermost_name GROUP BY ALL
)
SELECT r.trace_id, coalesce(r.domain || ':', '') || r.range_name AS range_name, r.style,
    c.instances, r.kernels, r.gpu_ns, r.gpu_ns / c.instances AS mean_ns,
    100.0 * r.gpu_ns / nullif(sum(r.gpu_ns) OVER (PARTITION BY r.trace_id), 0) AS share_pct,
    r.largest.name AS kernel_name, 100.0 * r.largest.ns / nullif(r.gpu_ns, 0) AS kernel_pct,
    r.memory_operations, r.memory_ns
FROM by_range r
LEFT JOIN range_count c
    ON  c.trace_id = r.trace_id AND c.domain IS NOT DISTINCT FROM r.domain
    AND c.name = r.range_name AND c.kind = r.style
-- Ranges with copies only have no kernel time and come last.
ORDER BY r.trace_id, r.gpu_ns DESC, r.memory_ns DESC, r.domain NULLS FIRST,
    r.range_name NULLS LAST, r.style
