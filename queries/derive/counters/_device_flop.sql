/*
title    = "FLOP of operators by device"
question = "How many FLOP did each device execute, and how long would they take at its peaks?"
source   = "FLOP of operators from shapes (_operator_kernel); each precision with its own peak"
grain    = "device used by a process: the analysis window, and each of its iterations"
needs    = ["window_op", "_operator_kernel"]
optional = ["device_peak"]
returns = [
    "trace_id", "process_id", "device_id", "iteration", "executed_flop", "model_flop",
    "executed_ns", "model_ns", "precision", "covered_pct",
]
[columns]
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
iteration = "iteration; NULL for the whole window"
executed_flop = "floating-point operations of the operators"
model_flop = "without repeated work (operator_flop.model_flop)"
executed_ns = "time that the executed FLOP take at peak; NULL if a peak is unknown"
model_ns = "time that the FLOP of the model take at peak; NULL if a peak is unknown"
precision = "arithmetic with FLOP, joined by +"
covered_pct = "share of the kernel time with known FLOP"
*/
WITH
worked AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id, o.iteration, o.op_id, o.duration_ns,
        k.flop, k.model_flop, k.arithmetic,
        CASE k.arithmetic
            WHEN 'fp64' THEN p.peak_fp64_flops
            WHEN 'fp32' THEN p.peak_fp32_flops
            WHEN 'tf32' THEN p.peak_tensor_tf32_flops
            WHEN 'fp16' THEN if(k.precision = 'fp16', p.peak_fp16_flops, p.peak_tensor_fp16_flops)
            WHEN 'bf16' THEN p.peak_tensor_bf16_flops
            WHEN 'fp8' THEN p.peak_tensor_fp8_flops
            WHEN 'fp4' THEN p.peak_tensor_fp4_flops
        END AS peak
    FROM window_op o
    LEFT JOIN _operator_kernel k ON k.trace_id = o.trace_id AND k.kernel_id = o.op_id
    LEFT JOIN device_peak p
        ON  p.trace_id = o.trace_id AND p.device_id = o.device_id
        AND (p.process_id IS NULL OR p.process_id = o.process_id)
    WHERE o.op_kind = 'kernel'
)
-- Floating-point sums depend on the order of rows; ORDER BY makes them reproducible.
SELECT trace_id, process_id, device_id, iteration,
    sum(flop ORDER BY op_id) AS executed_flop, sum(model_flop ORDER BY op_id) AS model_flop,
    CASE WHEN count(flop) = count(peak) FILTER (flop IS NOT NULL)
        THEN sum(flop / peak ORDER BY op_id) * 1e9 END AS executed_ns,
    CASE WHEN count(flop) = count(peak) FILTER (flop IS NOT NULL)
        THEN sum(model_flop / peak ORDER BY op_id) * 1e9 END AS model_ns,
    string_agg(DISTINCT arithmetic, '+' ORDER BY arithmetic) AS precision,
    100.0 * coalesce(sum(duration_ns) FILTER (flop IS NOT NULL), 0)
        / nullif(sum(duration_ns), 0) AS covered_pct
FROM (
    SELECT * FROM worked WHERE iteration IS NOT NULL
    UNION ALL BY NAME
    SELECT * EXCLUDE (iteration) FROM worked
)
GROUP BY trace_id, process_id, device_id, iteration
