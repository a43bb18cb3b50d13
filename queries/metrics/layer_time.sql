/*
title    = "GPU time by layer"
question = "How much GPU time does each layer take, forward and backward?"
source   = "exclusive time: the innermost layer around its launch owns a kernel"
grain    = "layer and phase, in the analysis window"
needs    = ["kernel"]
optional = ["window_op", "layer_type", "analysis_window"]
[columns.trace_id]
doc = "the trace"
[columns.layer]
doc = "layer; NULL for the kernels that no layer owns"
[columns.layer_type]
doc = "type, from layers.json or from the class of its kernels"
[columns.phase]
doc = "data, forward, loss, backward, optimizer, communication; NULL when nothing tells"
[columns.kernels]
doc = "kernels (a CUDA graph traced as a whole counts as one)"
[columns.gpu_ns]
unit = "ns"
doc = "sum of their durations in the window"
[columns.iteration_ns]
unit = "ns"
doc = "gpu_ns ÷ iterations in the window; NULL without iterations"
[columns.share_pct]
unit = "%"
doc = "gpu_ns ÷ sum over all kernels in the window"
[columns.evidence]
doc = "nvtx (a range around the launch), nvtx backward (a backward range), sequence (autograd sequence number); NULL for kernels that no layer owns"
[columns.measured_over]
doc = "stable iterations, all iterations or whole trace"
[plot]
kind = "barh"
x = "layer"
y = ["gpu_ns"]
series = "phase"
limit = 30
*/
WITH
counted AS (
    SELECT trace_id, layer, phase, layer_evidence, count(*) AS kernels, sum(duration_ns)::BIGINT AS gpu_ns
    FROM window_op WHERE op_kind IN ('kernel', 'graph')
    GROUP BY ALL
),
seen AS (
    SELECT trace_id, max(iterations) AS iterations, string_agg(DISTINCT measured_over, ', ' ORDER BY measured_over) AS measured_over
    FROM analysis_window GROUP BY ALL
)
SELECT c.trace_id, c.layer, t.layer_type, c.phase, c.kernels, c.gpu_ns,
    c.gpu_ns / s.iterations AS iteration_ns,
    100.0 * c.gpu_ns / nullif(sum(c.gpu_ns) OVER (PARTITION BY c.trace_id), 0) AS share_pct,
    c.layer_evidence AS evidence, s.measured_over
FROM counted c
JOIN seen s USING (trace_id)
LEFT JOIN layer_type t ON t.trace_id = c.trace_id AND t.layer = c.layer
ORDER BY c.trace_id, c.gpu_ns DESC, c.layer NULLS LAST, c.phase NULLS LAST, evidence NULLS LAST
