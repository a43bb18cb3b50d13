/*
title    = "FP16 utilization"
question = "What share of the FP16 peak outside the tensor cores did training use?"
source   = "as fp32_util, with FP16 counters and peak"
grain    = "evidence and device; with by=…, also iteration, layer or kernel"
needs    = ["kernel", "utilization"]
like     = "fp32_util"  # columns and plots: see fp32_util.sql
reduce   = "concat"
*/
SELECT * EXCLUDE (precision)
FROM utilization
WHERE precision = 'fp16'
-- Iterations stay in order of time; layers and kernels begin with the longest.
ORDER BY trace_id, pid, device_id, iteration NULLS FIRST,
    CASE WHEN layer IS NULL AND kernel_name IS NULL THEN 0 ELSE busy_ns END DESC NULLS LAST,
    layer NULLS LAST, kernel_name NULLS LAST, evidence
