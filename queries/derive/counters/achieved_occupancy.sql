/*
title    = "Achieved occupancy of each kernel"
question = "How many warps did each kernel keep active on the SMs, by hardware counters?"
source   = """nvprof achieved_occupancy (a ratio), Nsight Compute
    sm__warps_active.avg.pct_of_peak_sustained_active (a percentage)"""
needs    = ["kernel_counter"]
grain    = "kernel with a counted occupancy"
returns = ["trace_id", "kernel_id", "achieved_pct"]
[columns]
trace_id = "the trace"
achieved_pct = """active warps ÷ warp limit, over the cycles in which the SM had work; if both tools
    measured, the value of Nsight Compute; kernels above the physical peak of 100 % are left out"""
*/
SELECT
    trace_id,
    kernel_id,
    coalesce(
        avg(value) FILTER (metric = 'sm__warps_active.avg.pct_of_peak_sustained_active'),
        100 * avg(value) FILTER (metric = 'achieved_occupancy')
    ) AS achieved_pct
FROM kernel_counter
WHERE metric IN ('sm__warps_active.avg.pct_of_peak_sustained_active', 'achieved_occupancy')
GROUP BY trace_id, kernel_id
HAVING round(achieved_pct, 6) BETWEEN 0 AND 100
