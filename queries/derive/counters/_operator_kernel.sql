/*
title    = "FLOP of operators by kernel"
question = "Which part of the FLOP of an operator does each kernel have that it launches?"
source   = """FLOP of the operator (operator_flop), distributed over the kernels launched inside it
    by duration; its arithmetic by the type of its inputs and the names of its kernels"""
grain    = "kernel launched inside an operator with known FLOP"
needs    = ["operator_flop", "gpu_op", "launch", "op_launch"]
optional = ["kernel_class", "device_peak"]
returns = [
    "trace_id", "kernel_id", "annotation_id", "pass", "convention", "precision", "arithmetic",
    "is_sole", "flop", "model_flop", "least_bytes",
]
[columns]
kernel_id = "the kernel"
annotation_id = "the call of the operator"
pass = "forward, backward or recompute"
convention = "how the FLOP are counted (operator_flop)"
precision = "fp32, fp64, fp16 (outside the tensor cores) or tensor; NULL when unknown"
arithmetic = """of tensor cores: fp16, bf16, fp8, fp4, and tf32 for float32 inputs if the name of
    one of the operator's kernels shows tensor cores; else equal to precision"""
is_sole = "true if the operator launched no other kernel, so that its FLOP need no distribution"
flop = {unit = "FLOP", doc = "part of operator_flop.flop"}
model_flop = "part of operator_flop.model_flop"
least_bytes = "part of operator_flop.least_bytes"
*/
WITH
-- The operators do not overlap on a thread, so only the last one begun before a launch can hold it.
launching AS (
    SELECT f.trace_id, f.annotation_id, f.pass, f.convention, f.precision, f.flop, f.model_flop,
        f.least_bytes,
        l.api_call_id
    FROM launch l
    ASOF JOIN (FROM operator_flop WHERE thread_id IS NOT NULL) f
        ON  f.trace_id = l.trace_id
        AND coalesce(f.process_id, -1) = coalesce(l.process_id, -1)
        AND f.thread_id = l.thread_id AND l.start_ns >= f.start_ns
    WHERE l.end_ns <= f.end_ns AND f.flop IS NOT NULL
),
part AS (
    SELECT h.* EXCLUDE (api_call_id), o.op_id AS kernel_id,
        -- TF32 needs compute capability 8.0. Tensile's kernels (AMD) compute in FP32.
        coalesce(bool_or(c.tensor_core AND NOT starts_with(o.name, 'Cijk_')) OVER operator, false)
            AND coalesce(TRY_CAST(p.compute_capability AS DOUBLE) >= 8, true) AS is_tf32,
        coalesce(TRY_CAST(p.compute_capability AS DOUBLE) < 7, false) AS lacks_tensor_cores,
        count(*) OVER operator = 1 AS is_only,
        o.duration_ns / nullif(sum(o.duration_ns) OVER operator, 0) AS share
    FROM launching h
    JOIN op_launch l ON l.trace_id = h.trace_id AND l.api_call_id = h.api_call_id
    JOIN gpu_op o ON o.trace_id = l.trace_id AND o.op_kind = l.op_kind AND o.op_id = l.op_id
    LEFT JOIN kernel_class c ON c.trace_id = o.trace_id AND c.name = o.name
    LEFT JOIN device_peak p
        ON  p.trace_id = o.trace_id AND p.device_id = o.device_id
        AND (p.process_id IS NULL OR p.process_id = o.process_id)
    WHERE o.op_kind = 'kernel'
    WINDOW operator AS (PARTITION BY h.trace_id, h.annotation_id)
)
SELECT trace_id, kernel_id, annotation_id, pass, convention,
    CASE precision
        WHEN 'float64' THEN 'fp64'
        WHEN 'float32' THEN if(is_tf32, 'tensor', 'fp32')
        WHEN 'float16' THEN if(lacks_tensor_cores, 'fp16', 'tensor')
        WHEN 'bfloat16' THEN 'tensor' WHEN 'float8' THEN 'tensor' WHEN 'float4' THEN 'tensor'
    END AS precision,
    CASE precision
        WHEN 'float64' THEN 'fp64' WHEN 'float32' THEN if(is_tf32, 'tf32', 'fp32')
        WHEN 'float16' THEN 'fp16' WHEN 'bfloat16' THEN 'bf16'
        WHEN 'float8' THEN 'fp8' WHEN 'float4' THEN 'fp4'
    END AS arithmetic,
    is_only AS is_sole, flop * share AS flop, model_flop * share AS model_flop,
    least_bytes * share AS least_bytes
FROM part
