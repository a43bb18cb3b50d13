/*
title    = "Dominant layer"
question = "Which layer, or type of layer, takes the most time?"
source   = """Zhu et al. 2018, dominant layer per model: largest exclusive GPU time, forward and
    backward together; without a GPU, exclusive host time"""
grain    = "layer (or layer type) in the analysis window, the dominant one first"
needs    = [["kernel", "annotation"], "layer_clock"]
optional = ["window_op", "layer_host_time", "layer_type", "kernel_class"]
reduce   = "concat"
returns = [
    "trace_id", "rank", "layer", "layer_type", "gpu_ns", "host_ns", "clock", "share_pct",
    "unattributed_pct", "kernels", "evidence", "measured_over",
]
[params.by]
doc = "layer: one row per layer; type: one row per layer type"
choices = ["layer", "type"]
default = "layer"
[params.attribution]
doc = """auto: by NVTX layers if the trace has any, else by kernel class (no result on the host
    clock); nvtx and kernel class force one of them"""
choices = ["auto", "nvtx", "kernel class"]
default = "auto"
[columns]
rank = "1 for the dominant layer; NULL for time without a layer"
layer = "layer; NULL with by=type and when attributed by kernel class"
layer_type = "type of the layer, from layers.json or from the class of its kernels"
gpu_ns = "sum of kernel durations, forward and backward; NULL without GPU work in the trace"
host_ns = """exclusive host time of its ranges, forward and backward (layer_host_time); on a GPU,
    the time to launch; NULL without layer ranges"""
clock = """gpu or host: clock of rank, share_pct and unattributed_pct; rows without time on this
    clock are left out"""
share_pct = """time on this clock ÷ its sum over all rows: on the GPU over all kernels in the
    window, on the host over its iterations (layers of concurrent threads count once each)"""
unattributed_pct = """share without a layer (or kernel class): of the kernel time of the trace; on
    the host, of the time of the iterations in the window (loss, optimizer, data, …)"""
kernels = "number of kernels; NULL without GPU work in the trace"
evidence = """how the layer was found: nvtx, nvtx backward, sequence (several joined by +), or
    kernel name (estimated from naming conventions)"""
measured_over = "steady state, all iterations or whole trace"
[plot]
kind = "barh"
x = "layer_type"
y = ["share_pct"]
series = "layer"
limit = 15
*/
WITH
setting AS (
    SELECT getvariable('by') AS by_what,
        getvariable('attribution') AS attribution
),
-- by_range: attribute time to NVTX layers instead of kernel classes.
chosen AS (
    SELECT c.*,
        CASE s.attribution WHEN 'nvtx' THEN true WHEN 'kernel class' THEN false
             ELSE c.clock = 'host' OR EXISTS (
                 SELECT 1 FROM window_op o
                 WHERE o.trace_id = c.trace_id AND o.layer IS NOT NULL
                   AND o.op_kind IN ('kernel', 'graph'))
        END AS by_range
    FROM layer_clock c CROSS JOIN setting s
),
on_gpu AS (
    SELECT o.trace_id, 'gpu' AS clock, o.duration_ns AS ns,
        CASE WHEN c.by_range THEN o.layer END AS layer,
        -- Class other does not identify a layer.
        CASE WHEN NOT c.by_range THEN nullif(k.class, 'other') END AS kernel_class,
        CASE WHEN c.by_range THEN o.layer_evidence
             WHEN nullif(k.class, 'other') IS NOT NULL THEN 'kernel name' END AS evidence
    FROM window_op o
    JOIN chosen c USING (trace_id)
    LEFT JOIN kernel_class k ON k.trace_id = o.trace_id AND k.name = o.name AND o.op_kind = 'kernel'
    WHERE o.op_kind IN ('kernel', 'graph')
),
on_host AS (
    SELECT h.trace_id, 'host' AS clock, h.host_ns AS ns,
        CASE WHEN c.by_range THEN h.layer END AS layer, NULL AS kernel_class,
        CASE WHEN c.by_range THEN h.layer_evidence END AS evidence
    FROM layer_host_time h
    JOIN chosen c USING (trace_id)
    WHERE c.by_range OR c.clock = 'host'
),
summed AS (
    SELECT n.trace_id, coalesce(n.layer, n.kernel_class) IS NOT NULL AS is_owned,
        CASE WHEN s.by_what = 'layer' THEN n.layer END AS layer,
        coalesce(t.layer_type, n.kernel_class) AS layer_type,
        sum(n.ns) FILTER (n.clock = 'gpu') AS gpu_ns,
        sum(n.ns) FILTER (n.clock = 'host') AS host_ns,
        count(*) FILTER (n.clock = 'gpu') AS kernels,
        string_agg(DISTINCT n.evidence, ' + ' ORDER BY n.evidence)
            FILTER (n.clock = c.clock) AS evidence
    FROM (FROM on_gpu UNION ALL FROM on_host) n
    JOIN chosen c USING (trace_id)
    CROSS JOIN setting s
    LEFT JOIN layer_type t ON t.trace_id = n.trace_id AND t.layer = n.layer
    GROUP BY ALL
),
timed AS (
    SELECT s.trace_id, s.is_owned, s.layer, s.layer_type, s.evidence, c.clock, c.measured_over,
        c.total_ns,
        CASE WHEN c.has_gpu THEN coalesce(s.gpu_ns, 0) END::BIGINT AS gpu_ns,
        CASE WHEN c.has_gpu THEN s.kernels END AS kernels,
        s.host_ns::BIGINT AS host_ns,
        CASE c.clock WHEN 'gpu' THEN s.gpu_ns ELSE s.host_ns END AS ns
    FROM summed s
    JOIN chosen c USING (trace_id)
    WHERE ns IS NOT NULL
)
SELECT trace_id,
    CASE WHEN is_owned THEN row_number() OVER (
        PARTITION BY trace_id, is_owned ORDER BY ns DESC, layer, layer_type) END AS rank,
    layer, layer_type, gpu_ns, host_ns, clock,
    100.0 * ns / nullif(sum(ns) OVER trace, 0) AS share_pct,
    100.0 * coalesce(sum(ns) FILTER (NOT is_owned) OVER trace, 0)
        / nullif(total_ns, 0) AS unattributed_pct,
    kernels, evidence, measured_over
FROM timed
WINDOW trace AS (PARTITION BY trace_id)
ORDER BY trace_id, rank NULLS LAST, layer, layer_type
