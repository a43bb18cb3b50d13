/*
title    = "Occupancy of layers"
question = "What is the occupancy of the kernels of each layer?"
source   = "occupancy of each kernel execution (query occupancy), weighted by time"
grain    = "layer of a trace, forward and backward together"
needs    = ["gpu_op", "window_op", "kernel_occupancy"]
optional = ["achieved_occupancy", "analysis_window"]
reduce   = "concat"
returns = [
    "trace_id", "layer", "theoretical_pct", "estimated_achieved_pct", "achieved_pct", "counted_pct",
    "kernels", "total_ns", "evidence", "measured_over",
]
[columns]
layer = "layer; NULL for kernels without a layer"
theoretical_pct = """resident warps that the launch configurations allow ÷ warp limit of an SM; NULL
    as in query occupancy"""
estimated_achieved_pct = "as theoretical_pct, limited by the blocks of the grids (query occupancy)"
achieved_pct = "measured: active warps ÷ warp limit; NULL without the counter"
counted_pct = "share of the kernel time of the layer with a measured achieved occupancy"
kernels = {unit = "kernel", doc = "kernel executions of the layer in the window"}
total_ns = "sum of the durations of these executions"
evidence = """counter if achieved_pct was measured, else modelled; theoretical_pct and
    estimated_achieved_pct are always modelled"""
measured_over = """steady state, all iterations or whole trace; several joined by a comma if devices
    differ"""
[plot]
kind = "barh"
x = "layer"
y = ["theoretical_pct", "estimated_achieved_pct", "achieved_pct"]
limit = 30
*/
-- Equal occupancies are grouped first, so that the ordered sums below have few rows.
WITH execution AS (
    SELECT
        w.trace_id,
        w.layer,
        o.theoretical_pct,
        o.estimated_achieved_pct,
        a.achieved_pct,
        count(*) AS kernels,
        sum(w.duration_ns) AS duration_ns
    FROM window_op AS w
    LEFT JOIN kernel_occupancy AS o ON o.trace_id = w.trace_id AND o.kernel_id = w.op_id
    LEFT JOIN achieved_occupancy AS a ON a.trace_id = w.trace_id AND a.kernel_id = w.op_id
    WHERE w.op_kind = 'kernel'
    GROUP BY ALL
),
-- Floating-point sums depend on the order of rows; ORDER BY makes them reproducible.
grouped AS (
    SELECT
        trace_id,
        layer,
        sum(duration_ns * theoretical_pct ORDER BY theoretical_pct, duration_ns)
        / nullif(sum(duration_ns) FILTER (theoretical_pct IS NOT NULL), 0) AS theoretical_pct,
        sum(duration_ns * estimated_achieved_pct ORDER BY estimated_achieved_pct, duration_ns)
        / nullif(sum(duration_ns) FILTER (estimated_achieved_pct IS NOT NULL), 0)
            AS estimated_achieved_pct,
        sum(duration_ns * achieved_pct ORDER BY achieved_pct, duration_ns)
        / nullif(sum(duration_ns) FILTER (achieved_pct IS NOT NULL), 0) AS achieved_pct,
        100.0 * coalesce(sum(duration_ns) FILTER (achieved_pct IS NOT NULL), 0)
        / nullif(sum(duration_ns), 0) AS counted_pct,
        CAST(sum(kernels) AS BIGINT) AS kernels,
        CAST(sum(duration_ns) AS BIGINT) AS total_ns
    FROM execution
    GROUP BY trace_id, layer
),
span AS (
    SELECT
        trace_id,
        string_agg(DISTINCT measured_over, ', ' ORDER BY measured_over) AS measured_over
    FROM analysis_window
    GROUP BY trace_id
)
SELECT
    g.trace_id,
    g.layer,
    g.theoretical_pct,
    g.estimated_achieved_pct,
    g.achieved_pct,
    g.counted_pct,
    g.kernels,
    g.total_ns,
    CASE WHEN g.achieved_pct IS NOT NULL THEN 'counter' ELSE 'modelled' END AS evidence,
    s.measured_over
FROM grouped AS g
LEFT JOIN span AS s ON s.trace_id = g.trace_id
ORDER BY g.trace_id, g.layer IS NULL, g.total_ns DESC, g.layer
