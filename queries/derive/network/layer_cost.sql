/*
title    = "Cost of layers"
question = "What does each layer compute and what would it communicate per iteration?"
source   = """time of the layers in the analysis window ÷ iterations; bytes of gradients from
    layers.json"""
grain    = "layer of a trace"
needs    = ["layer_definition", "layer_clock"]
optional = ["window_op", "layer_host_time", "iteration_statistics", "job_rank"]
returns = [
    "trace_id", "position", "layer", "forward_s", "backward_s", "gradient_bytes", "iteration_s",
    "iteration_p5_s", "iteration_p95_s", "iterations", "ranks", "evidence",
]
[params.layers]
doc = """CSV file with a row per layer in the order of the forward pass: name, fwd_s, bwd_s (seconds
    per iteration), grad_bytes; it replaces the traces"""
default = ""
[file]
param = "layers"
columns = {name = "text", fwd_s = "number", bwd_s = "number", grad_bytes = "number"}
rows = """SELECT file_name AS trace_id, position, name AS layer, fwd_s AS forward_s,
    bwd_s AS backward_s, grad_bytes AS gradient_bytes, NULL::DOUBLE AS iteration_s,
    NULL::DOUBLE AS iteration_p5_s, NULL::DOUBLE AS iteration_p95_s, NULL::BIGINT AS iterations,
    NULL::BIGINT AS ranks, 'layer list' AS evidence FROM row_file"""
[columns]
trace_id = "the trace, or the name of the layer list"
layer = "the layer"
forward_s = {unit = "s", doc = "forward time per iteration, loss included"}
backward_s = {unit = "s", doc = "backward time per iteration"}
gradient_bytes = "bytes of the gradient of its weights"
iteration_s = {unit = "s", doc = "median iteration; NULL when unknown"}
iteration_p5_s = {unit = "s", doc = "5th percentile of the iterations"}
iteration_p95_s = {unit = "s", doc = "95th percentile of the iterations"}
iterations = "iterations of the median and the percentiles"
ranks = "ranks of the job of the trace; NULL for one alone"
evidence = "gpu or host (clock of the times) and layers.json; or layer list"
[advice]
missing = """
needs the time of the layers and the bytes of their gradients: a capture of one worker with
layers.json (tbd-trace collect), or a file --set layers=FILE.csv with the columns name, fwd_s,
bwd_s and grad_bytes"""
*/
WITH
timed AS (
    SELECT o.trace_id, o.layer, o.phase, sum(o.duration_ns) / c.iterations / 1e9 AS time_s
    FROM window_op o
    JOIN layer_clock c ON c.trace_id = o.trace_id AND c.clock = 'gpu'
    WHERE o.op_kind IN ('kernel', 'graph') AND o.layer IS NOT NULL
    GROUP BY o.trace_id, o.layer, o.phase, c.iterations
    UNION ALL
    SELECT h.trace_id, h.layer, h.phase, sum(h.host_ns) / c.iterations / 1e9
    FROM layer_host_time h
    JOIN layer_clock c ON c.trace_id = h.trace_id AND c.clock = 'host'
    WHERE h.layer IS NOT NULL
    GROUP BY h.trace_id, h.layer, h.phase, c.iterations
),
by_layer AS (
    SELECT trace_id, layer,
        coalesce(sum(time_s) FILTER (phase IN ('forward', 'loss')), 0) AS forward_s,
        coalesce(sum(time_s) FILTER (phase = 'backward'), 0) AS backward_s
    FROM timed GROUP BY trace_id, layer
),
spread AS (
    SELECT trace_id, arg_max(median_ns, n) / 1e9 AS iteration_s,
        arg_max(p5_ns, n) / 1e9 AS iteration_p5_s, arg_max(p95_ns, n) / 1e9 AS iteration_p95_s,
        max(n) AS iterations
    FROM iteration_statistics WHERE measure = 'period_ns' GROUP BY trace_id
),
-- Without the bytes of every layer, or time in both phases, a prediction would be too good.
known AS (
    SELECT d.trace_id
    FROM layer_definition d LEFT JOIN by_layer b USING (trace_id, layer)
    GROUP BY d.trace_id
    HAVING sum(b.forward_s) > 0 AND sum(b.backward_s) > 0
        AND count(coalesce(d.gradient_bytes, d.weight_bytes)) = count(*)
)
SELECT d.trace_id, row_number() OVER (PARTITION BY d.trace_id ORDER BY d.position, d.layer)
        ::INTEGER - 1 AS position,
    d.layer, coalesce(b.forward_s, 0) AS forward_s, coalesce(b.backward_s, 0) AS backward_s,
    coalesce(d.gradient_bytes, d.weight_bytes)::DOUBLE AS gradient_bytes,
    s.iteration_s, s.iteration_p5_s, s.iteration_p95_s, s.iterations, r.ranks,
    c.clock || ' time, layers.json' AS evidence
FROM layer_definition d
SEMI JOIN known k ON k.trace_id = d.trace_id
JOIN layer_clock c ON c.trace_id = d.trace_id
LEFT JOIN by_layer b ON b.trace_id = d.trace_id AND b.layer = d.layer
LEFT JOIN spread s ON s.trace_id = d.trace_id
LEFT JOIN (
    SELECT trace_id, max(world_size) AS ranks FROM job_rank WHERE world_size > 1 GROUP BY trace_id
) r ON r.trace_id = d.trace_id
