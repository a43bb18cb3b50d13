/*
title    = "Occupancy histogram"
question = "At which occupancy does the GPU spend its time?"
source   = """occupancy of each kernel execution (query occupancy) in bins, weighted by time;
    measured and modelled values are counted separately"""
grain    = "measure and bin, per trace"
needs    = ["kernel", "kernel_occupancy"]
optional = ["achieved_occupancy", "counter_donor_trace"]
partial  = true
reduce   = "concat"
returns = [
    "trace_id", "measure", "bin_start_pct", "bin_end_pct", "kernels", "total_ns", "share_pct",
    "evidence",
]
[params.bins]
doc = "bins of equal width from 0 to 100 %"
default = 10
[columns]
measure = "theoretical, estimated achieved, or achieved (only with counters)"
bin_start_pct = """lower limit; NULL in the row of kernels whose occupancy is unknown or above 100
    %, which is impossible"""
bin_end_pct = "upper limit, excluded except for 100 %"
kernels = {unit = "kernel", doc = "kernel executions; 0 in an empty bin"}
total_ns = "sum of their durations; NULL in a trace without durations"
share_pct = """total ÷ total kernel time of the trace (sum over streams and devices); in a trace
    without durations, kernels ÷ all kernels"""
evidence = """counter for achieved, modelled for theoretical and estimated achieved; NULL if no
    occupancy is known"""
[plot]
kind = "binned"
x = "bin_start_pct"
x_end = "bin_end_pct"
x_title = "occupancy"
y = ["share_pct"]
series = "measure"
*/
WITH
setting AS (
    SELECT CASE WHEN bins < 1 THEN error('bins must be 1 or more') ELSE bins END AS bins
    FROM (SELECT getvariable('bins') AS bins)
),
measured AS (
    SELECT
        k.trace_id,
        k.duration_ns,
        m.position,
        m.measure,
        CASE m.measure
            WHEN 'theoretical' THEN o.theoretical_pct
            WHEN 'estimated achieved' THEN o.estimated_achieved_pct
            ELSE a.achieved_pct
        END AS occupancy_pct
    FROM kernel AS k
    CROSS JOIN (
        VALUES (1, 'theoretical'), (2, 'estimated achieved'), (3, 'achieved')
    ) AS m (position, measure)
    LEFT JOIN kernel_occupancy AS o ON o.trace_id = k.trace_id AND o.kernel_id = k.kernel_id
    LEFT JOIN achieved_occupancy AS a ON a.trace_id = k.trace_id AND a.kernel_id = k.kernel_id
    -- Counter donors replay the kernels of a timeline; counting both would double them.
    WHERE k.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
),
counted AS (
    SELECT
        trace_id,
        position,
        measure,
        -- 100 % belongs to the last bin; impossible values belong to bin NULL.
        CASE
            WHEN occupancy_pct BETWEEN 0 AND 100
                THEN CAST(least(floor(occupancy_pct * bins / 100), bins - 1) AS BIGINT)
        END AS bin,
        count(*) AS kernels,
        sum(duration_ns) AS total_ns
    FROM measured
    CROSS JOIN setting
    GROUP BY ALL
),
known AS (
    -- Measures without any known value are omitted.
    SELECT DISTINCT trace_id, position, measure FROM counted WHERE bin IS NOT NULL
),
every_bin AS (
    SELECT n.*, unnest(range(CAST(s.bins AS BIGINT))) AS bin FROM known AS n CROSS JOIN setting AS s
    UNION ALL
    SELECT c.trace_id, c.position, c.measure, c.bin
    FROM counted AS c
    SEMI JOIN known AS n ON n.trace_id = c.trace_id AND n.measure = c.measure
    WHERE c.bin IS NULL
    UNION ALL
    -- A trace without any known occupancy has one row with all its kernels.
    SELECT c.trace_id, c.position, c.measure, c.bin
    FROM counted AS c
    WHERE c.measure = 'theoretical' AND c.trace_id NOT IN (SELECT trace_id FROM known)
),
whole AS (
    SELECT trace_id, count(*) AS kernels, sum(duration_ns) AS total_ns
    FROM kernel
    GROUP BY trace_id
)
SELECT
    e.trace_id,
    e.measure,
    100.0 * e.bin / s.bins AS bin_start_pct,
    100.0 * (e.bin + 1) / s.bins AS bin_end_pct,
    coalesce(c.kernels, 0) AS kernels,
    CASE WHEN w.total_ns > 0 THEN CAST(coalesce(c.total_ns, 0) AS BIGINT) END AS total_ns,
    CASE
        WHEN w.total_ns > 0 THEN 100.0 * coalesce(c.total_ns, 0) / w.total_ns
        ELSE 100.0 * coalesce(c.kernels, 0) / w.kernels
    END AS share_pct,
    CASE
        WHEN e.trace_id NOT IN (SELECT trace_id FROM known) THEN NULL
        WHEN e.measure = 'achieved' THEN 'counter'
        ELSE 'modelled'
    END AS evidence
FROM every_bin AS e
CROSS JOIN setting AS s
INNER JOIN whole AS w ON w.trace_id = e.trace_id
LEFT JOIN counted AS c
    ON c.trace_id = e.trace_id AND c.measure = e.measure AND c.bin IS NOT DISTINCT FROM e.bin
ORDER BY e.trace_id, e.position, bin_start_pct NULLS LAST
