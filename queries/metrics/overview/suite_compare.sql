/*
title    = "Suite comparison"
question = """How do models, frameworks and batch sizes compare, and were they measured in the same
    way?"""
source   = """throughput of the unprofiled run (Zhu et al. 2018, section 3.4.1); captures that
    differ in more than model, framework and batch size are compared only with force"""
grain    = "timeline of a capture"
needs    = ["iteration"]
optional = ["capture_summary", "window_op", "layer_clock", "layer_host_time", "layer_type"]
leaves_out = "capture_left_out"
[params.force]
doc = "true: compare captures that were measured differently"
default = false
[refuse]
column = "differs"
unless = "force"
[columns.trace_id]
doc = "the trace"
[columns.capture]
doc = "capture directory, or file name"
[columns.model]
doc = "model; NULL if capture.json does not record it"
[columns.framework]
doc = "framework; NULL if capture.json does not record it"
[columns.configuration]
doc = "framework, and any property that differs but should agree"
[columns.batch_size]
unit = "sample"
doc = "samples per iteration and process; NULL if capture.json does not record it"
[columns.throughput]
doc = "throughput of all processes together, in the unit in column throughput_unit"
[columns.throughput_unit]
doc = """unit in which throughput of the model is published, such as images/s; samples/s if
    capture.json names no unit, and for profiled runs"""
[columns.throughput_run]
doc = """unprofiled: the unprofiled run of the capture; profiled: the iterations of the timeline,
    without such a run; and the properties that are labels of `tbd-trace ingest`"""
[columns.iteration_ns]
unit = "ns"
doc = "mean iteration with the profiler, start to start (iteration_rate), averaged over processes"
[columns.gpu_busy_pct]
unit = "%"
doc = """time with GPU work ÷ elapsed, over all GPUs used (compute_util); NULL without GPU work in
    the trace"""
[columns.dominant_layer]
doc = "layer with the most time, forward and backward; NULL without layer ranges"
[columns.dominant_layer_type]
doc = "type of the dominant layer, from layers.json or from the class of its kernels"
[columns.dominant_layer_pct]
unit = "%"
doc = "share of the dominant layer in the time on the clock in column layer_clock (dominant_layer)"
[columns.layer_clock]
doc = "gpu or host: clock of the layer times; NULL without layers"
[columns.peak_device_bytes]
unit = "byte"
doc = "peak device memory allocated for tensors; NULL if not recorded"
[columns.device]
doc = "GPUs used, or cpu; NULL when unknown"
[columns.precision]
doc = """arithmetic precision, and the type of automatic casting; NULL if capture.json does not
    record it"""
[columns.profiler]
doc = "profiler of the timeline, with its version"
[columns.measured_over]
doc = """steady state, or all iterations without a steady state; several joined by a comma if
    processes differ"""
[columns.differs]
doc = """properties that differ, one sentence each, with the captures. All captures must agree in
    device, precision, scale, processes, profiler (any version), throughput run, layer clock and
    synthetic; captures of a model in variant, data set, batch definition, sequence policy and
    optimizer; captures of a model and framework in framework version. Unknown differs from known.
    NULL if all agree"""
[plot]
kind = "line"
x = "batch_size"
y = ["throughput"]
series = "configuration"
panels = ["model", "throughput_unit"]
*/
WITH
layer_time AS (
    SELECT o.trace_id, o.layer, sum(o.duration_ns) AS ns
    FROM window_op o JOIN layer_clock c ON c.trace_id = o.trace_id AND c.clock = 'gpu'
    WHERE o.op_kind IN ('kernel', 'graph')
    GROUP BY ALL
    UNION ALL
    SELECT h.trace_id, h.layer, sum(h.host_ns)
    FROM layer_host_time h JOIN layer_clock c ON c.trace_id = h.trace_id AND c.clock = 'host'
    GROUP BY ALL
),
-- The share is relative to all time, including time without a layer.
dominant AS (
    SELECT trace_id, layer, 100.0 * ns / nullif(total_ns, 0) AS share_pct
    FROM (SELECT *, sum(ns) OVER (PARTITION BY trace_id) AS total_ns FROM layer_time)
    WHERE layer IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY ns DESC, layer) = 1
)
-- Captures that differ are listed without numbers, unless force is set.
SELECT r.trace_id, r.capture, r.model, r.framework, r.configuration, r.batch_size,
    CASE WHEN answers THEN r.throughput END AS throughput, r.throughput_unit, r.throughput_run,
    CASE WHEN answers THEN r.iteration_ns END AS iteration_ns,
    CASE WHEN answers THEN r.gpu_busy_pct END AS gpu_busy_pct,
    CASE WHEN answers THEN l.layer END AS dominant_layer,
    CASE WHEN answers THEN t.layer_type END AS dominant_layer_type,
    CASE WHEN answers THEN l.share_pct END AS dominant_layer_pct,
    r.layer_clock, r.peak_device_bytes, r.device, r.precision, r.profiler,
    CASE WHEN answers THEN r.measured_over END AS measured_over, r.differs
FROM (
    SELECT *, differs IS NULL OR coalesce(getvariable('force'), false) AS answers
    FROM capture_summary
) r
LEFT JOIN dominant l USING (trace_id)
LEFT JOIN layer_type t ON t.trace_id = r.trace_id AND t.layer = l.layer
ORDER BY r.model, r.framework, r.configuration, r.batch_size, r.capture, r.trace_id
