/*
title    = "Kernel durations"
question = "How are kernel durations distributed: many short kernels or few long ones?"
source   = "histogram with bins of equal width on a logarithmic scale"
grain    = "bin, from the shortest kernel of a trace to its longest"
needs    = ["kernel"]
optional = ["counter_donor_trace"]
partial  = true
reduce   = "concat"
returns = [
    "trace_id", "bin_start_ns", "bin_end_ns", "kernels", "total_ns", "kernels_pct", "time_pct",
]
[params.bins_per_decade]
doc = "bins per power of ten"
default = 5
[columns]
bin_start_ns = """lower limit: 10^(k ÷ bins per decade) for an integer k; 0 for kernels of zero
    duration"""
bin_end_ns = "upper limit, excluded"
kernels = {unit = "kernel", doc = "kernel executions; 0 in an empty bin"}
total_ns = "sum of the durations of these executions"
kernels_pct = "kernels ÷ all kernels of the trace with a known duration"
time_pct = "total ÷ total kernel time of the trace (sum over streams and devices)"
[plot]
kind = "binned"
x = "bin_start_ns"
x_end = "bin_end_ns"
x_title = "duration"
log = ["x"]
y = [["kernels_pct"], ["time_pct"]]
*/
WITH
setting AS (
    SELECT CASE WHEN per_decade < 1 THEN error('bins_per_decade must be 1 or more')
                ELSE per_decade END AS per_decade
    FROM (SELECT getvariable('bins_per_decade') AS per_decade)
),
counted AS (
    SELECT trace_id, bin, count(*) AS kernels, sum(duration_ns)::BIGINT AS total_ns
    FROM (
        SELECT trace_id, duration_ns,
            -- Zero has no logarithm: bin NULL holds these kernels.
            CASE WHEN duration_ns > 0 THEN floor(log10(duration_ns) * per_decade)::BIGINT END AS bin
        FROM kernel, setting
        WHERE duration_ns IS NOT NULL
            -- Counter donors replay the kernels of a timeline; counting both would double them.
            AND trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
    )
    GROUP BY trace_id, bin
),
-- Empty bins keep the axis of a plot complete.
every_bin AS (
    SELECT trace_id, unnest(range(min(bin), max(bin) + 1)) AS bin FROM counted GROUP BY trace_id
    UNION ALL
    SELECT trace_id, bin FROM counted WHERE bin IS NULL
)
SELECT e.trace_id,
    CASE WHEN e.bin IS NULL THEN 0 ELSE pow(10, e.bin / s.per_decade) END::DOUBLE AS bin_start_ns,
    CASE WHEN e.bin IS NULL THEN 1
         ELSE pow(10, (e.bin + 1) / s.per_decade) END::DOUBLE AS bin_end_ns,
    coalesce(c.kernels, 0) AS kernels, coalesce(c.total_ns, 0) AS total_ns,
    100.0 * coalesce(c.kernels, 0) / sum(c.kernels) OVER whole AS kernels_pct,
    100.0 * coalesce(c.total_ns, 0) / nullif(sum(c.total_ns) OVER whole, 0) AS time_pct
FROM every_bin e
CROSS JOIN setting s
LEFT JOIN counted c ON c.trace_id = e.trace_id AND c.bin IS NOT DISTINCT FROM e.bin
WINDOW whole AS (PARTITION BY e.trace_id)
ORDER BY e.trace_id, bin_start_ns
