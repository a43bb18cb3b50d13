/*
title    = "Suite comparison"
question = "How do models, frameworks and batch sizes compare, and were they measured alike?"
source   = "throughput of the run without a profiler (Zhu et al. 2018, section 3.4.1); captures that differ in more than model, framework and batch size are not compared unless that is forced"
grain    = "timeline of a capture"
needs    = ["iteration"]
optional = ["capture_summary", "window_op", "layer_clock", "layer_host_time", "layer_type"]
leaves_out = "capture_left_out"
[params.force]
doc = "true compares captures that were not measured alike, too"
default = false
[refuse]
column = "differs"
unless = "force"
[columns.trace_id]
doc = "the trace"
[columns.capture]
doc = "capture directory, or file name"
[columns.model]
doc = "model; NULL when capture.json does not say"
[columns.framework]
doc = "framework; NULL when capture.json does not say"
[columns.configuration]
doc = "framework, and whatever differs in what should be alike"
[columns.batch_size]
unit = "sample"
doc = "samples per iteration and process; NULL when capture.json does not say"
[columns.throughput]
doc = "of all processes together, in the unit below"
[columns.throughput_unit]
doc = "unit in which the model's throughput is published, such as images/s; samples/s where capture.json names none, and under the profiler"
[columns.throughput_run]
doc = "unprofiled: the capture's run without a profiler; profiled: by iterations of the timeline, where there is no such run"
[columns.iteration_ns]
unit = "ns"
doc = "mean iteration under the profiler, from start to start (iteration_rate), of several processes their mean"
[columns.gpu_busy_pct]
unit = "%"
doc = "time in which a GPU worked ÷ elapsed, over all GPUs used (compute_util); NULL where the trace has no GPU work"
[columns.dominant_layer]
doc = "layer that takes most time, forward and backward; NULL where no range marks a layer"
[columns.dominant_layer_type]
doc = "its type, from layers.json or from the class of its kernels"
[columns.dominant_layer_pct]
unit = "%"
doc = "its share of the time by the clock below (dominant_layer)"
[columns.layer_clock]
doc = "gpu or host: the clock by which layers are told; NULL where nothing tells layers"
[columns.peak_device_bytes]
unit = "byte"
doc = "most device memory that tensors took at a time; NULL when not recorded"
[columns.device]
doc = "GPUs used, or cpu; NULL when unknown"
[columns.precision]
doc = "main arithmetic, and the type that automatic casting casts to; NULL when capture.json does not say"
[columns.profiler]
doc = "profiler of the timeline, and its version"
[columns.measured_over]
doc = "steady state, or all iterations where there is none; joined by , where processes differ"
[columns.differs]
doc = "what was not alike, and in which captures, a sentence each: device, precision, scale, processes, profiler (not its version), throughput run, layer clock and whether it is synthetic must agree in all captures; variant, data set, batch definition, sequence policy and optimizer in those of a model; framework version in those of a model and framework. Not known is different from known. NULL when all agree"
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
dominant AS (
    SELECT trace_id, layer, 100.0 * ns / nullif(total_ns, 0) AS share_pct
    FROM (SELECT *, sum(ns) OVER (PARTITION BY trace_id) AS total_ns FROM layer_time)
    WHERE layer IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY ns DESC, layer) = 1
)
SELECT r.trace_id, r.capture, r.model, r.framework, r.configuration, r.batch_size,
    CASE WHEN answers THEN r.throughput END AS throughput, r.throughput_unit, r.throughput_run,
    CASE WHEN answers THEN r.iteration_ns END AS iteration_ns,
    CASE WHEN answers THEN r.gpu_busy_pct END AS gpu_busy_pct,
    CASE WHEN answers THEN l.layer END AS dominant_layer,
    CASE WHEN answers THEN t.layer_type END AS dominant_layer_type,
    CASE WHEN answers THEN l.share_pct END AS dominant_layer_pct,
    r.layer_clock, r.peak_device_bytes, r.device, r.precision, r.profiler,
    CASE WHEN answers THEN r.measured_over END AS measured_over, r.differs
FROM (SELECT *, differs IS NULL OR coalesce(getvariable('force'), false) AS answers FROM capture_summary) r
LEFT JOIN dominant l USING (trace_id)
LEFT JOIN layer_type t ON t.trace_id = r.trace_id AND t.layer = l.layer
ORDER BY r.model, r.framework, r.configuration, r.batch_size, r.capture, r.trace_id
