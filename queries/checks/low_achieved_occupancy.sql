/*
title    = "Low occupancy"
question = "Do kernels with a large share of the time leave most warp slots of an SM empty?"
source   = """theoretical occupancy from the launch configuration, achieved occupancy from counters;
    matrix products on tensor cores need few warps"""
grain    = "trace"
needs    = ["kernel"]
optional = [
    "trace", "window_op", "kernel_occupancy", "achieved_occupancy", "kernel_class",
    "kernel_work",
]
reduce   = "concat"
[check]
rule = "OCC01"
scope = "trace"
thresholds = "proposed"
advice = """if registers or shared memory limit occupancy, use smaller blocks or tiles, or launch
    bounds; if warps or blocks limit it, change the block size; if achieved is far below
    theoretical occupancy, launch more blocks with even work (larger batch, split work);
    tbd-trace query occupancy lists all kernels"""
collect = """hardware counters in addition to the timeline, in a capture directory (tbd-trace
    collect writes both), on a GPU listed in data/gpu_architectures.csv"""
[params.min_theoretical_pct]
doc = "theoretical occupancy, in percent, up to which a kernel has low occupancy"
default = 50.0
[params.min_achieved_ratio]
doc = "minimum achieved ÷ theoretical occupancy"
default = 0.6
[params.tensor_suffices_pct]
doc = "utilization of the tensor cores, in percent, from which low occupancy is normal"
default = 60.0
[params.min_share_pct]
doc = "minimum share of the kernel time of a kernel that is evaluated, in percent"
default = 2.0
*/
WITH
setting AS (
    SELECT getvariable('min_theoretical_pct')::DOUBLE AS min_theoretical_pct,
        getvariable('min_achieved_ratio')::DOUBLE AS min_achieved_ratio,
        getvariable('tensor_suffices_pct')::DOUBLE AS tensor_suffices_pct,
        getvariable('min_share_pct')::DOUBLE AS min_share_pct
),
-- Kernels of the window, or all kernels of a file without a time axis.
counted AS (
    SELECT o.trace_id, o.op_id AS kernel_id FROM window_op o WHERE o.op_kind = 'kernel'
    UNION ALL
    SELECT trace_id, kernel_id FROM kernel
    WHERE trace_id IN (SELECT trace_id FROM trace WHERE kind = 'metrics')
),
tensor AS (
    SELECT trace_id, kernel_id,
        -- Levels of nvprof reach from 0 to 10.
        max(coalesce(pipe_active_pct, pipe_elapsed_pct, 10 * pipe_level)) AS tensor_pct
    FROM kernel_work WHERE precision = 'tensor' AND evidence = 'counter' GROUP BY ALL
),
execution AS (
    SELECT k.trace_id, k.kernel_id, k.name, k.duration_ns, o.theoretical_pct,
        CASE o.active_blocks_per_sm WHEN o.blocks_by_warps THEN 'warps'
            WHEN o.blocks_by_registers THEN 'registers'
            WHEN o.blocks_by_shared_memory THEN 'shared memory'
            WHEN o.blocks_by_slots THEN 'blocks' END AS limiter,
        a.achieved_pct, t.tensor_pct
    FROM counted n
    JOIN kernel k ON k.trace_id = n.trace_id AND k.kernel_id = n.kernel_id
    LEFT JOIN kernel_occupancy o ON o.trace_id = k.trace_id AND o.kernel_id = k.kernel_id
    LEFT JOIN achieved_occupancy a ON a.trace_id = k.trace_id AND a.kernel_id = k.kernel_id
    LEFT JOIN tensor t ON t.trace_id = k.trace_id AND t.kernel_id = k.kernel_id
),
by_limiter AS (
    SELECT trace_id, name, first(limiter ORDER BY ns DESC, limiter) AS limiter
    FROM (
        SELECT trace_id, name, limiter, sum(duration_ns) AS ns
        FROM execution WHERE limiter IS NOT NULL GROUP BY ALL
    )
    GROUP BY ALL
),
by_name AS (
    SELECT trace_id, name, sum(duration_ns) AS ns,
        100.0 * sum(duration_ns)
            / nullif(sum(sum(duration_ns)) OVER (PARTITION BY trace_id), 0) AS share_pct,
        sum(duration_ns * theoretical_pct ORDER BY kernel_id)
            / nullif(sum(duration_ns) FILTER (theoretical_pct IS NOT NULL), 0) AS theoretical_pct,
        sum(duration_ns * achieved_pct ORDER BY kernel_id) FILTER (theoretical_pct > 0)
            / nullif(
                sum(duration_ns * theoretical_pct ORDER BY kernel_id)
                    FILTER (achieved_pct IS NOT NULL), 0) AS achieved_ratio,
        sum(duration_ns * tensor_pct ORDER BY kernel_id)
            / nullif(sum(duration_ns) FILTER (tensor_pct IS NOT NULL), 0) AS tensor_pct
    FROM execution GROUP BY trace_id, name
),
evaluated AS (
    SELECT n.*, l.limiter,
        CASE
            WHEN n.tensor_pct >= s.tensor_suffices_pct THEN 'normal'
            WHEN n.achieved_ratio < s.min_achieved_ratio THEN 'achieved'
            WHEN n.theoretical_pct > s.min_theoretical_pct THEN 'normal'
            -- Few warps are enough if tensor cores do the work, which no counter shows here.
            WHEN n.tensor_pct IS NULL
                AND (c.tensor_core OR c.class IN ('GEMM', 'CONV', 'attention')) THEN 'unknown'
            WHEN n.theoretical_pct <= s.min_theoretical_pct THEN 'theoretical'
        END AS occupancy
    FROM by_name n
    CROSS JOIN setting s
    JOIN kernel_class c ON c.trace_id = n.trace_id AND c.name = n.name
    LEFT JOIN by_limiter l ON l.trace_id = n.trace_id AND l.name = n.name
    -- Communication kernels leave the SMs to other kernels by design.
    WHERE n.share_pct >= s.min_share_pct AND c.class <> 'communication'
),
summed AS (
    SELECT trace_id, count(occupancy) AS known,
        count(*) FILTER (occupancy IN ('achieved', 'theoretical')) AS kernels,
        count(*) FILTER (occupancy = 'theoretical') AS kernels_by_launch,
        sum(share_pct) FILTER (occupancy IN ('achieved', 'theoretical')) AS found_pct,
        sum(share_pct) FILTER (occupancy = 'unknown') AS unknown_pct,
        bool_or(achieved_ratio IS NOT NULL) AS has_achieved,
        min(theoretical_pct) FILTER (occupancy = 'theoretical') AS lowest_pct,
        100 * min(achieved_ratio) FILTER (occupancy = 'achieved') AS lowest_ratio_pct,
        min(theoretical_pct) FILTER (occupancy = 'normal') AS normal_pct,
        array_to_string(list(
            format('{} ({:.1f} % of the time, {:.0f} % theoretical, limited by {}{})',
                -- Template arguments fill lines: 60 characters identify a kernel.
                CASE WHEN len(name) > 60 THEN name[:36] || '…' || right(name, 23)
                     ELSE name END,
                share_pct, theoretical_pct, coalesce(limiter, 'an unknown resource'),
                coalesce(format(', {:.0f} % of it achieved', 100 * achieved_ratio), ''))
            ORDER BY ns DESC, name) FILTER (occupancy IN ('achieved', 'theoretical'))[:3], ', '
        ) AS named
    FROM evaluated GROUP BY trace_id
),
explained AS (
    SELECT t.trace_id, s.*, m.* EXCLUDE (trace_id),
        CASE
            WHEN coalesce(m.known, 0) = 0
                THEN 'the limits of this GPU, or the configurations or durations of its kernels, '
                    || 'are unknown'
            WHEN m.kernels = 0 AND m.unknown_pct > 0 THEN format(
                'only matrix products and convolutions ({:.1f} % of the kernel time) have low '
                    || 'theoretical occupancy, which is normal on busy tensor cores; counters of '
                    || 'tensor cores are missing',
                m.unknown_pct)
        END AS why_not
    FROM trace t
    CROSS JOIN setting s
    LEFT JOIN summed m ON m.trace_id = t.trace_id
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN kernels > 0 THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN why_not IS NULL THEN coalesce(lowest_pct, lowest_ratio_pct, normal_pct) END AS value,
    CASE WHEN kernels > 0 AND kernels_by_launch = 0 THEN 100 * min_achieved_ratio
         ELSE min_theoretical_pct END AS threshold,
    '%' AS unit,
    CASE WHEN why_not IS NULL
         THEN CASE WHEN has_achieved THEN 'counter' ELSE 'modelled' END END AS evidence,
    CASE
        WHEN why_not IS NOT NULL THEN why_not
        WHEN kernels > 0 THEN format(
            'kernels with low occupancy take {:.1f} % of the kernel time: {}', found_pct, named)
        ELSE format(
            'all kernels with {:.1f} % of the kernel time or more have at least {:.0f} % '
                || 'theoretical occupancy, or use the tensor cores well',
            min_share_pct, normal_pct)
    END AS reason,
    NULL::VARCHAR AS advice
FROM explained
ORDER BY trace_id
