/*
title    = "Occupancy of kernels"
question = "What is the occupancy of kernels, theoretical and achieved, and what limits it?"
source   = """NVIDIA occupancy calculator; achieved: nvprof achieved_occupancy, Nsight Compute
    sm__warps_active.avg.pct_of_peak_sustained_active"""
needs    = ["kernel", "kernel_occupancy"]
optional = ["achieved_occupancy", "counter_donor_trace"]
partial  = true
grain    = "kernel name per trace, or trace"
reduce   = "concat"
returns = [
    "trace_id", "kernel_name", "theoretical_pct", "estimated_achieved_pct", "achieved_pct",
    "limiter", "waves", "instances", "counted_instances", "configurations", "grid_blocks",
    "block_threads", "registers_per_thread", "shared_bytes", "total_ns", "evidence",
]
[params.by]
doc = "kernel: one row per kernel name; trace: one row per trace"
choices = ["kernel", "trace"]
default = "kernel"
[columns]
kernel_name = "demangled name; NULL with by=trace"
theoretical_pct = """resident warps that the launch configuration allows ÷ warp limit of an SM,
    weighted by time; NULL if the GPU is not in gpu_architectures or the launch configuration is
    unknown"""
estimated_achieved_pct = """as theoretical_pct, limited by the blocks of the grid: min(active blocks
    per SM, blocks of the grid ÷ SMs) × threads per block ÷ thread limit of an SM, weighted by time;
    NULL as theoretical_pct, or if the number of SMs is unknown"""
achieved_pct = """measured: active warps ÷ warp limit over the cycles in which the SM had work,
    weighted by time; NULL without the counter"""
limiter = """limit of the theoretical occupancy (warps, registers, shared memory, blocks), or grid
    if the grid is too small to fill the GPU, for most of the time; with equal times, the first
    alphabetically"""
waves = {unit = "wave", doc = """blocks of the grid ÷ blocks that the GPU holds at once, weighted by
    time"""}
instances = {unit = "kernel", doc = "kernel executions"}
counted_instances = {unit = "kernel", doc = "executions with a measured achieved occupancy"}
configurations = {unit = "configuration", doc = """number of launch configurations (grid, block,
    registers, shared memory) in the means"""}
grid_blocks = {unit = "block", doc = "blocks of the grid, in the configuration with the most time"}
block_threads = {unit = "thread", doc = """threads per block, in the configuration with the most
    time"""}
registers_per_thread = {unit = "register", doc = """registers per thread, in the configuration with
    the most time"""}
shared_bytes = "static and dynamic shared memory per block, in the configuration with the most time"
total_ns = """sum of durations; NULL in a trace without durations, where every execution has the
    same weight"""
evidence = """counter if achieved_pct was measured, else modelled; theoretical_pct and
    estimated_achieved_pct are always modelled"""
[plot]
kind = "barh"
x = "kernel_name"
y = ["theoretical_pct", "estimated_achieved_pct", "achieved_pct"]
limit = 15
*/
-- Without durations, all executions have equal weight.
WITH timed AS (
    SELECT trace_id, sum(duration_ns) > 0 AS has_durations FROM kernel GROUP BY trace_id
),
execution AS (
    SELECT
        k.trace_id,
        k.kernel_id,
        CASE getvariable('by') WHEN 'kernel' THEN k.name END AS kernel_name,
        k.duration_ns,
        CASE WHEN t.has_durations THEN k.duration_ns ELSE 1 END AS weight,
        k.grid_x * k.grid_y * k.grid_z AS grid_blocks,
        k.block_x * k.block_y * k.block_z AS block_threads,
        k.registers_per_thread,
        coalesce(k.static_shared_bytes, 0) + k.dynamic_shared_bytes AS shared_bytes,
        o.theoretical_pct,
        o.estimated_achieved_pct,
        a.achieved_pct,
        o.limiter,
        o.waves
    FROM kernel AS k
    INNER JOIN timed AS t ON t.trace_id = k.trace_id
    LEFT JOIN kernel_occupancy AS o ON o.trace_id = k.trace_id AND o.kernel_id = k.kernel_id
    LEFT JOIN achieved_occupancy AS a ON a.trace_id = k.trace_id AND a.kernel_id = k.kernel_id
    -- Counter donors replay the kernels of a timeline; counting both would double them.
    WHERE k.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
),
configuration AS (
    SELECT
        trace_id,
        kernel_name,
        grid_blocks,
        block_threads,
        registers_per_thread,
        shared_bytes,
        theoretical_pct,
        estimated_achieved_pct,
        limiter,
        waves,
        count(*) AS instances,
        sum(duration_ns) AS total_ns,
        sum(weight) AS weight,
        count(achieved_pct) AS counted_instances,
        sum(weight * achieved_pct ORDER BY kernel_id) AS weighted_achieved,
        sum(weight) FILTER (achieved_pct IS NOT NULL) AS counted_weight,
        min(kernel_id) AS first_kernel_id
    FROM execution
    GROUP BY
        trace_id,
        kernel_name,
        grid_blocks,
        block_threads,
        registers_per_thread,
        shared_bytes,
        theoretical_pct,
        estimated_achieved_pct,
        limiter,
        waves
),
-- The limiter with the most time, over all configurations of a kernel name.
binding AS (
    SELECT trace_id, kernel_name, first(limiter ORDER BY weight DESC, limiter) AS limiter
    FROM (
        SELECT trace_id, kernel_name, limiter, sum(weight) AS weight
        FROM configuration
        WHERE limiter IS NOT NULL
        GROUP BY ALL
    )
    GROUP BY trace_id, kernel_name
),
-- Floating-point sums depend on the order of rows; ORDER BY makes them reproducible.
grouped AS (
    SELECT
        trace_id,
        kernel_name,
        sum(weight * theoretical_pct ORDER BY first_kernel_id)
        / nullif(sum(weight) FILTER (theoretical_pct IS NOT NULL), 0) AS theoretical_pct,
        sum(weight * estimated_achieved_pct ORDER BY first_kernel_id)
        / nullif(sum(weight) FILTER (estimated_achieved_pct IS NOT NULL), 0)
            AS estimated_achieved_pct,
        sum(weighted_achieved ORDER BY first_kernel_id)
        / nullif(sum(counted_weight), 0) AS achieved_pct,
        sum(weight * waves ORDER BY first_kernel_id)
        / nullif(sum(weight) FILTER (waves IS NOT NULL), 0) AS waves,
        sum(instances) AS instances,
        sum(counted_instances) AS counted_instances,
        count(*) AS configurations,
        sum(total_ns) AS total_ns,
        first(
            {
                'grid_blocks': grid_blocks,
                'block_threads': block_threads,
                'registers_per_thread': registers_per_thread,
                'shared_bytes': shared_bytes
            }
            ORDER BY weight DESC, grid_blocks, block_threads, registers_per_thread, shared_bytes
        ) AS longest
    FROM configuration
    GROUP BY trace_id, kernel_name
)
SELECT
    g.trace_id,
    g.kernel_name,
    g.theoretical_pct,
    g.estimated_achieved_pct,
    g.achieved_pct,
    b.limiter,
    g.waves,
    CAST(g.instances AS BIGINT) AS instances,
    CAST(g.counted_instances AS BIGINT) AS counted_instances,
    g.configurations,
    g.longest.grid_blocks AS grid_blocks,
    g.longest.block_threads AS block_threads,
    g.longest.registers_per_thread AS registers_per_thread,
    g.longest.shared_bytes AS shared_bytes,
    CAST(g.total_ns AS BIGINT) AS total_ns,
    CASE WHEN g.achieved_pct IS NOT NULL THEN 'counter' ELSE 'modelled' END AS evidence
FROM grouped AS g
LEFT JOIN binding AS b
    ON b.trace_id = g.trace_id AND b.kernel_name IS NOT DISTINCT FROM g.kernel_name
ORDER BY g.trace_id, g.total_ns DESC NULLS LAST, g.kernel_name
