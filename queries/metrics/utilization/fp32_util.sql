/*
title    = "FP32 utilization"
question = "What share of the FP32 peak did training use?"
source   = """Zhu et al. 2018, section 3.4.3, which does not define T as busy or elapsed time; both
    are reported"""
grain    = "evidence and device; with by=…, also iteration, layer or kernel"
needs    = ["kernel", "utilization"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "device_id", "iteration", "layer", "kernel_name", "kernels", "flop",
    "peak_flops", "busy_ns", "elapsed_ns", "busy_pct", "elapsed_pct", "pipe_pct",
    "pipe_elapsed_pct", "pipe_level", "covered_pct", "evidence", "measured_over", "reason",
]
[columns]
device_id = "device; NULL when unknown"
[[plot]]
kind = "line"
x = "iteration"
y = ["busy_pct", "pipe_pct"]
series = ["evidence", "pid", "device_id"]
[[plot]]
kind = "grouped_barh"
x = "layer"
y = ["busy_pct", "pipe_pct"]
series = ["evidence", "pid", "device_id"]
limit = 120
[[plot]]
kind = "grouped_barh"
x = "kernel_name"
y = ["busy_pct", "pipe_pct", "pipe_level"]
series = ["evidence", "pid", "device_id"]
limit = 40
[[plot]]
kind = "grouped_barh"
x = ["trace_id", "device_id", "pid"]
y = ["busy_pct", "elapsed_pct", "pipe_pct"]
series = "evidence"
*/
SELECT * EXCLUDE (precision)
FROM utilization
WHERE precision = 'fp32'
-- Iterations stay in order of time; layers and kernels begin with the longest.
ORDER BY trace_id, pid, device_id, iteration NULLS FIRST,
    CASE WHEN layer IS NULL AND kernel_name IS NULL THEN 0 ELSE busy_ns END DESC NULLS LAST,
    layer NULLS LAST, kernel_name NULLS LAST, evidence
