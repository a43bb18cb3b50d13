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
returns = [
    "trace_id", "capture", "model", "framework", "configuration", "batch_size", "throughput",
    "throughput_unit", "throughput_run", "iteration_ns", "gpu_busy_pct", "dominant_layer",
    "dominant_layer_type", "dominant_layer_pct", "layer_clock", "peak_device_bytes", "device",
    "precision", "profiler", "measured_over", "differs",
]
[params.force]
doc = "true: compare captures that were measured differently"
default = false
[refuse]
column = "differs"
unless = "force"
[columns]
gpu_busy_pct = """time with GPU work ÷ elapsed, over all GPUs used (compute_util); NULL without GPU
    work in the trace"""
dominant_layer = "layer with the most time, forward and backward; NULL without layer ranges"
dominant_layer_type = """type of the dominant layer, from layers.json or from the class of its
    kernels"""
dominant_layer_pct = """share of the dominant layer in the time on the clock in column layer_clock
    (dominant_layer)"""
measured_over = """steady state, or all iterations without a steady state; several joined by a comma
    if processes differ"""
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
    SELECT *, differs IS NULL OR getvariable('force') AS answers
    FROM capture_summary
) r
LEFT JOIN dominant l USING (trace_id)
LEFT JOIN layer_type t ON t.trace_id = r.trace_id AND t.layer = l.layer
ORDER BY r.model, r.framework, r.configuration, r.batch_size, r.capture, r.trace_id
