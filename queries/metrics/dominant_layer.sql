/*
title    = "Dominant layer"
question = "Which layer, or kind of layer, takes most of the GPU's time?"
source   = "Zhu et al. 2018, dominant layer per model: largest exclusive GPU time, forward and backward of a layer being one layer"
grain    = "layer (or layer type) in the analysis window, the dominant one first"
needs    = ["kernel"]
optional = ["window_op", "layer_type", "kernel_class", "analysis_window"]
[params.by]
doc = "layer: single layers; type: layers of one type together"
choices = ["layer", "type"]
default = "layer"
[params.attribution]
doc = "auto: by NVTX layers where the trace has any, else by kernel class; nvtx and kernel class force one"
choices = ["auto", "nvtx", "kernel class"]
default = "auto"
[columns.trace_id]
doc = "the trace"
[columns.rank]
doc = "1 for the dominant layer; NULL for the time that no layer owns"
[columns.layer]
doc = "layer; by kernel class and by type NULL"
[columns.layer_type]
doc = "type of the layer, from layers.json or from the class of its kernels"
[columns.gpu_ns]
unit = "ns"
doc = "sum of the durations of its kernels, forward and backward"
[columns.share_pct]
unit = "%"
doc = "gpu_ns ÷ sum over all kernels in the window"
[columns.unattributed_pct]
unit = "%"
doc = "share of the trace's kernel time that no layer (or no kernel class) owns"
[columns.kernels]
doc = "kernels"
[columns.evidence]
doc = "nvtx, nvtx backward, sequence (joined by + where several), or kernel name: an estimate from naming conventions"
[columns.measured_over]
doc = "stable iterations, all iterations or whole trace"
[plot]
kind = "barh"
x = "layer_type"
y = ["share_pct"]
series = "layer"
limit = 15
*/
WITH
setting AS (
    SELECT coalesce(getvariable('by'), 'layer') AS by_what,
        coalesce(getvariable('attribution'), 'auto') AS attribution
),
owned AS (
    SELECT o.trace_id, o.layer, o.layer_evidence, o.duration_ns,
        coalesce(nullif(c.class, 'other'), CASE WHEN o.op_kind = 'graph' THEN NULL END) AS class,
        CASE s.attribution WHEN 'nvtx' THEN true WHEN 'kernel class' THEN false
             ELSE bool_or(o.layer IS NOT NULL) OVER (PARTITION BY o.trace_id) END AS by_range
    FROM window_op o
    CROSS JOIN setting s
    LEFT JOIN kernel_class c ON c.trace_id = o.trace_id AND c.name = o.name AND o.op_kind = 'kernel'
    WHERE o.op_kind IN ('kernel', 'graph')
),
named AS (
    SELECT o.trace_id, o.by_range, o.duration_ns,
        CASE WHEN o.by_range AND s.by_what = 'layer' THEN o.layer END AS layer,
        CASE WHEN o.by_range THEN t.layer_type ELSE o.class END AS layer_type,
        CASE WHEN o.by_range THEN o.layer IS NOT NULL ELSE o.class IS NOT NULL END AS is_owned,
        CASE WHEN o.by_range THEN o.layer_evidence WHEN o.class IS NOT NULL THEN 'kernel name' END AS evidence
    FROM owned o
    CROSS JOIN setting s
    LEFT JOIN layer_type t ON t.trace_id = o.trace_id AND t.layer = o.layer
),
summed AS (
    SELECT trace_id, layer, CASE WHEN is_owned THEN layer_type END AS layer_type, is_owned,
        sum(duration_ns)::BIGINT AS gpu_ns, count(*) AS kernels,
        string_agg(DISTINCT evidence, ' + ' ORDER BY evidence) AS evidence
    FROM named
    GROUP BY trace_id, layer, CASE WHEN is_owned THEN layer_type END, is_owned
),
seen AS (
    SELECT trace_id, string_agg(DISTINCT measured_over, ', ' ORDER BY measured_over) AS measured_over
    FROM analysis_window GROUP BY ALL
)
SELECT s.trace_id,
    CASE WHEN s.is_owned THEN row_number() OVER (
        PARTITION BY s.trace_id, s.is_owned ORDER BY s.gpu_ns DESC, s.layer, s.layer_type) END AS rank,
    s.layer, s.layer_type, s.gpu_ns,
    100.0 * s.gpu_ns / nullif(sum(s.gpu_ns) OVER trace, 0) AS share_pct,
    100.0 * coalesce(sum(s.gpu_ns) FILTER (NOT s.is_owned) OVER trace, 0)
        / nullif(sum(s.gpu_ns) OVER trace, 0) AS unattributed_pct,
    s.kernels, s.evidence, w.measured_over
FROM summed s JOIN seen w USING (trace_id)
WINDOW trace AS (PARTITION BY s.trace_id)
ORDER BY s.trace_id, rank NULLS LAST, s.layer, s.layer_type
