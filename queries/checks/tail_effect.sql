/*
title    = "Tail effect"
question = """Do kernels with a large share of the time end with a wave of blocks that leaves most
    of the GPU empty?"""
source   = """wave quantisation: waves = blocks ÷ (blocks per SM × SMs), efficiency = waves ÷ waves
    rounded up"""
grain    = "trace"
needs    = ["kernel"]
optional = ["trace", "window_op", "kernel_occupancy", "kernel_class"]
reduce   = "concat"
[check]
rule = "OCC02"
scope = "trace"
thresholds = "proposed"
advice = """choose a batch or tile size whose blocks fill whole waves, split the work into more and
    smaller blocks, or run small kernels concurrently (streams, graphs)"""
collect = "a timeline on a GPU listed in data/gpu_architectures.csv"
[params.min_wave_pct]
doc = "minimum share of the block slots of its waves that a launch fills, in percent"
default = 80.0
[params.waves_enough]
doc = "number of waves from which the last wave has little effect"
default = 4.0
[params.min_share_pct]
doc = "minimum share of the kernel time of a kernel that is evaluated, in percent"
default = 2.0
*/
WITH
setting AS (
    SELECT getvariable('min_wave_pct')::DOUBLE AS min_wave_pct,
        getvariable('waves_enough')::DOUBLE AS waves_enough,
        getvariable('min_share_pct')::DOUBLE AS min_share_pct
),
-- Kernels of the window, or all kernels of a file without a time axis.
counted AS (
    SELECT o.trace_id, o.op_id AS kernel_id FROM window_op o WHERE o.op_kind = 'kernel'
    UNION ALL
    SELECT trace_id, kernel_id FROM kernel
    WHERE trace_id IN (SELECT trace_id FROM trace WHERE kind = 'metrics')
),
execution AS (
    SELECT k.trace_id, k.name, k.duration_ns, o.waves,
        k.grid_x * k.grid_y * k.grid_z AS blocks,
        100.0 * o.waves / ceil(o.waves) AS wave_pct,
        round(k.grid_x * k.grid_y * k.grid_z / (o.waves * o.active_blocks_per_sm))::BIGINT
            AS sm_count
    FROM counted n
    JOIN kernel k ON k.trace_id = n.trace_id AND k.kernel_id = n.kernel_id
    JOIN kernel_occupancy o ON o.trace_id = k.trace_id AND o.kernel_id = k.kernel_id
    WHERE o.waves > 0
),
evaluated AS (
    SELECT e.*,
        e.wave_pct < s.min_wave_pct AND e.waves < s.waves_enough
            -- Persistent kernels launch a fixed number of blocks per SM, whatever the work.
            AND NOT (e.waves <= 1 AND e.blocks % e.sm_count = 0)
            AND NOT regexp_matches(e.name, '(?i)persist|stream_?k|cooperative') AS has_tail
    FROM execution e
    CROSS JOIN setting s
    JOIN kernel_class c ON c.trace_id = e.trace_id AND c.name = e.name
    WHERE c.class <> 'communication'
),
by_name AS (
    SELECT trace_id, name, sum(duration_ns) AS ns,
        sum(duration_ns * wave_pct) AS filled,
        coalesce(sum(duration_ns) FILTER (has_tail), 0) AS tail_ns,
        sum(duration_ns * wave_pct) FILTER (has_tail) AS tail_filled,
        sum(duration_ns * waves) FILTER (has_tail) AS tail_waves,
        100.0 * tail_ns
            / nullif(sum(sum(duration_ns)) OVER (PARTITION BY trace_id), 0) AS tail_pct
    FROM evaluated GROUP BY trace_id, name
),
summed AS (
    SELECT n.trace_id, count(*) FILTER (n.tail_pct >= s.min_share_pct) AS kernels,
        sum(n.tail_pct) FILTER (n.tail_pct >= s.min_share_pct) AS found_pct,
        sum(n.tail_filled ORDER BY n.name) FILTER (n.tail_pct >= s.min_share_pct)
            / nullif(sum(n.tail_ns) FILTER (n.tail_pct >= s.min_share_pct), 0) AS found_wave_pct,
        sum(n.filled ORDER BY n.name) / nullif(sum(n.ns), 0) AS wave_pct,
        array_to_string(list(
            format('{} ({:.1f} % of the time, {:.2f} waves)',
                -- Template arguments fill lines: 60 characters identify a kernel.
                CASE WHEN len(n.name) > 60 THEN n.name[:36] || '…' || right(n.name, 23)
                     ELSE n.name END,
                n.tail_pct, n.tail_waves / n.tail_ns)
            ORDER BY n.tail_ns DESC, n.name) FILTER (n.tail_pct >= s.min_share_pct)[:3], ', '
        ) AS named
    FROM by_name n CROSS JOIN setting s
    GROUP BY n.trace_id
),
explained AS (
    SELECT t.trace_id, s.*, m.* EXCLUDE (trace_id),
        CASE WHEN m.wave_pct IS NULL
             THEN 'the limits of this GPU, or the configurations or durations of its kernels, '
                || 'are unknown'
        END AS why_not
    FROM trace t
    CROSS JOIN setting s
    LEFT JOIN summed m ON m.trace_id = t.trace_id
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN kernels > 0 THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN why_not IS NULL THEN coalesce(found_wave_pct, wave_pct) END AS value,
    min_wave_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN 'modelled' END AS evidence,
    CASE
        WHEN why_not IS NOT NULL THEN why_not
        WHEN kernels > 0 THEN format(
            'kernels that fill only {:.0f} % of their waves take {:.1f} % of the kernel time: {}',
            found_wave_pct, found_pct, named)
        ELSE format(
            'kernels fill {:.0f} % of their waves; no kernel with a tail takes {:.1f} % of the '
                || 'kernel time or more',
            wave_pct, min_share_pct)
    END AS reason,
    NULL::VARCHAR AS advice
FROM explained
ORDER BY trace_id
