/*
title    = "Kernel summary"
question = "Which kernels take the most GPU time?"
source   = "same sums as nsys stats cuda_gpu_kern_sum and nvprof --print-gpu-summary"
grain    = "kernel name, or kernel name and launch configuration, per trace"
needs    = ["trace"]
optional = ["kernel", "kernel_aggregate", "counter_donor_trace"]
partial  = true
reduce   = "concat"
returns = [
    "trace_id", "kernel_name", "grid", "block", "instances", "total_ns", "mean_ns", "median_ns",
    "min_ns", "max_ns", "stddev_ns", "share_pct",
]
[params.by]
doc = "kernel: one row per name; configuration: one row per name, grid and block"
choices = ["kernel", "configuration"]
default = "kernel"
[columns]
trace_id = "the trace"
kernel_name = "demangled name"
grid = "grid in blocks, x y z; NULL with by=kernel and when unknown"
block = "block in threads, x y z; NULL with by=kernel and when unknown"
total_ns = "sum of durations; NULL if the tool recorded no times"
median_ns = "median duration; NULL in a profiler summary"
min_ns = "shortest"
max_ns = "longest"
stddev_ns = "sample standard deviation; NULL for a single execution and in a profiler summary"
share_pct = "total ÷ total kernel time of the trace (sum over streams and devices)"
[plot]
kind = "barh"
x = ["kernel_name", "grid", "block"]
x_title = "kernel"
y = ["total_ns"]
limit = 20
*/
WITH
single AS (
    SELECT trace_id, name AS kernel_name,
        CASE WHEN by_configuration
            THEN nullif(concat_ws(' ', grid_x, grid_y, grid_z), '') END AS grid,
        CASE WHEN by_configuration
            THEN nullif(concat_ws(' ', block_x, block_y, block_z), '') END AS block,
        duration_ns
    FROM kernel,
        (SELECT getvariable('by') = 'configuration' AS by_configuration)
    -- Counter donors replay the kernels of a timeline; counting both would double them.
    WHERE trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
),
summed AS (
    SELECT trace_id, kernel_name, grid, block, count(*) AS instances,
        sum(duration_ns)::BIGINT AS total_ns, avg(duration_ns) AS mean_ns,
        median(duration_ns)::DOUBLE AS median_ns, min(duration_ns) AS min_ns,
        max(duration_ns) AS max_ns,
        -- Integer sums are exact, so the result does not depend on the order of rows.
        sqrt((count(duration_ns) * sum(duration_ns::HUGEINT * duration_ns)
                - sum(duration_ns)::HUGEINT * sum(duration_ns))
            / nullif(count(duration_ns) * (count(duration_ns) - 1.0), 0)) AS stddev_ns
    FROM single GROUP BY trace_id, kernel_name, grid, block
    UNION ALL
    -- A profiler summary has totals and extremes only: no median, no standard deviation.
    SELECT trace_id, name, NULL, NULL, sum(instances)::BIGINT, sum(total_ns)::BIGINT,
        sum(total_ns) / nullif(sum(instances), 0), NULL, min(min_ns), max(max_ns), NULL
    FROM kernel_aggregate GROUP BY trace_id, name
)
SELECT trace_id, kernel_name, grid, block, instances, total_ns, mean_ns, median_ns, min_ns, max_ns,
    stddev_ns, 100.0 * total_ns / nullif(sum(total_ns) OVER (PARTITION BY trace_id), 0) AS share_pct
FROM summed
ORDER BY trace_id, total_ns DESC NULLS LAST, kernel_name, grid, block
