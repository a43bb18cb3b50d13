/*
title    = "Batch-size sweep"
question = "How do throughput, utilization and memory grow with the batch size?"
source   = """Zhu et al. 2018, sections 3.4 and 4.2: throughput, GPU and FP32 utilization over
    mini-batch sizes; captures that differ in more than model, framework and batch size are compared
    only with force"""
grain    = "timeline of a capture"
needs    = ["iteration"]
optional = ["capture_summary", "utilization"]
leaves_out = "capture_left_out"
returns = [
    "trace_id", "model", "configuration", "batch_size", "capture", "throughput", "throughput_unit",
    "throughput_run", "iteration_ns", "gpu_busy_pct", "fp32_util_pct", "fp32_evidence",
    "tensor_util_pct", "tensor_evidence", "peak_device_bytes", "device", "precision",
    "measured_over", "differs",
]
[params.force]
doc = "true: compare captures that were measured differently"
default = false
[refuse]
column = "differs"
unless = "force"
[columns]
iteration_ns = "mean iteration with the profiler, start to start"
gpu_busy_pct = """time with GPU work ÷ elapsed, over all GPUs used (compute_util); NULL without GPU
    work in the trace"""
fp32_util_pct = """FP32 FLOP ÷ (peak × time with a kernel), over all GPUs used (fp32_util); NULL if
    FLOP or peak are unknown"""
fp32_evidence = "source of the FLOP: counter, else modelled; NULL without a value"
tensor_util_pct = "the same for tensor cores (tensor_util)"
tensor_evidence = "source of the FLOP of the tensor cores, as in fp32_evidence"
measured_over = """steady state, or all iterations without a steady state; several joined by a comma
    if processes differ"""
differs = "properties that differ, with the captures, as in suite_compare; NULL if all agree"
[plot]
kind = "line"
x = "batch_size"
y = [["throughput"], ["gpu_busy_pct", "fp32_util_pct", "tensor_util_pct"]]
series = "configuration"
panels = ["model", "throughput_unit"]
*/
WITH
-- One kind of evidence for all GPUs of a trace: counter (first in the alphabet) if counters cover
-- all GPUs, else modelled.
used AS (
    SELECT trace_id, precision, evidence,
        sum(busy_pct * busy_ns ORDER BY pid, device_id) / nullif(sum(busy_ns), 0) AS util_pct
    FROM utilization
    -- Parameter by changes the rows of utilization; only rows of whole traces fit here.
    WHERE iteration IS NULL AND layer IS NULL AND kernel_name IS NULL
      AND getvariable('by') = 'trace'
    GROUP BY trace_id, precision, evidence
    HAVING count(busy_pct) = count(*)
    QUALIFY row_number() OVER (PARTITION BY trace_id, precision ORDER BY evidence) = 1
),
utilized AS (
    SELECT trace_id,
        any_value(util_pct) FILTER (precision = 'fp32') AS fp32_util_pct,
        any_value(evidence) FILTER (precision = 'fp32') AS fp32_evidence,
        any_value(util_pct) FILTER (precision = 'tensor') AS tensor_util_pct,
        any_value(evidence) FILTER (precision = 'tensor') AS tensor_evidence
    FROM used GROUP BY trace_id
)
-- Captures that differ are listed without numbers, unless force is set.
SELECT r.trace_id, r.model, r.configuration, r.batch_size, r.capture,
    CASE WHEN answers THEN r.throughput END AS throughput, r.throughput_unit, r.throughput_run,
    CASE WHEN answers THEN r.iteration_ns END AS iteration_ns,
    CASE WHEN answers THEN r.gpu_busy_pct END AS gpu_busy_pct,
    CASE WHEN answers THEN u.fp32_util_pct END AS fp32_util_pct,
    CASE WHEN answers THEN u.fp32_evidence END AS fp32_evidence,
    CASE WHEN answers THEN u.tensor_util_pct END AS tensor_util_pct,
    CASE WHEN answers THEN u.tensor_evidence END AS tensor_evidence,
    r.peak_device_bytes, r.device, r.precision,
    CASE WHEN answers THEN r.measured_over END AS measured_over, r.differs
FROM (
    SELECT *, differs IS NULL OR getvariable('force') AS answers
    FROM capture_summary
) r
LEFT JOIN utilized u USING (trace_id)
ORDER BY r.model, r.configuration, r.batch_size, r.capture, r.trace_id
