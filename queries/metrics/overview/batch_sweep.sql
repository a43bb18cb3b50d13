/*
title    = "Batch-size sweep"
question = "How do throughput, utilization and memory grow with the batch size?"
source   = "Zhu et al. 2018, sections 3.4 and 4.2: throughput, GPU and FP32 utilization over mini-batch sizes; captures that differ in more than model, framework and batch size are not compared unless that is forced"
grain    = "timeline of a capture"
needs    = ["iteration"]
optional = ["capture_summary", "utilization"]
leaves_out = "capture_left_out"
[params.force]
doc = "true compares captures that were not measured alike, too"
default = false
[refuse]
column = "differs"
unless = "force"
[columns.trace_id]
doc = "the trace"
[columns.model]
doc = "model; NULL when capture.json does not say"
[columns.configuration]
doc = "framework, and whatever differs in what should be alike"
[columns.batch_size]
unit = "sample"
doc = "samples per iteration and process; NULL when capture.json does not say"
[columns.capture]
doc = "capture directory, or file name"
[columns.throughput]
doc = "of all processes together, in the unit below"
[columns.throughput_unit]
doc = "unit in which the model's throughput is published, such as images/s; samples/s where capture.json names none, and under the profiler"
[columns.throughput_run]
doc = "unprofiled: the capture's run without a profiler; profiled: by iterations of the timeline, where there is no such run"
[columns.iteration_ns]
unit = "ns"
doc = "mean iteration under the profiler, from start to start"
[columns.gpu_busy_pct]
unit = "%"
doc = "time in which a GPU worked ÷ elapsed, over all GPUs used (compute_util); NULL where the trace has no GPU work"
[columns.fp32_util_pct]
unit = "%"
doc = "FP32 FLOP ÷ (peak × time in which a kernel ran), over all GPUs used (fp32_util); NULL when FLOP or peak are not known"
[columns.fp32_evidence]
doc = "how the FLOP are known: counter, else modelled; NULL without a number"
[columns.tensor_util_pct]
unit = "%"
doc = "the same of the tensor cores (tensor_util)"
[columns.tensor_evidence]
doc = "how their FLOP are known"
[columns.peak_device_bytes]
unit = "byte"
doc = "most device memory that tensors took at a time; NULL when not recorded"
[columns.device]
doc = "GPUs used, or cpu; NULL when unknown"
[columns.precision]
doc = "main arithmetic, and the type that automatic casting casts to; NULL when capture.json does not say"
[columns.measured_over]
doc = "steady state, or all iterations where there is none; joined by , where processes differ"
[columns.differs]
doc = "what was not alike, and in which captures, as in suite_compare; NULL when all agree"
[plot]
kind = "line"
x = "batch_size"
y = [["throughput"], ["gpu_busy_pct", "fp32_util_pct", "tensor_util_pct"]]
series = "configuration"
panels = ["model", "throughput_unit"]
*/
WITH
-- One kind of evidence for all GPUs of a trace: counters where they cover every one of them.
used AS (
    SELECT trace_id, precision, evidence,
        sum(busy_pct * busy_ns ORDER BY pid, device_id) / nullif(sum(busy_ns), 0) AS util_pct
    FROM utilization
    WHERE iteration IS NULL AND layer IS NULL AND kernel_name IS NULL
      AND coalesce(getvariable('by'), 'trace') = 'trace'
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
FROM (SELECT *, differs IS NULL OR coalesce(getvariable('force'), false) AS answers FROM capture_summary) r
LEFT JOIN utilized u USING (trace_id)
ORDER BY r.model, r.configuration, r.batch_size, r.capture, r.trace_id
