/*
title    = "Time by layer"
question = "How much time does each layer take, forward and backward?"
source   = """exclusive time: a kernel belongs to the innermost layer around its launch, host time
    to the innermost layer of the thread"""
grain    = "layer and phase, in the analysis window"
needs    = [["kernel", "annotation"], "layer_clock"]
optional = [
    "window_op", "layer_host_time", "layer_type", "_module_call", "kernel_scope", "kernel_class",
]
reduce   = "concat"
returns = [
    "trace_id", "layer", "layer_type", "phase", "kernels", "gpu_ns", "host_ns", "clock",
    "iteration_ns", "share_pct", "evidence", "measured_over",
]
[params.by]
doc     = """layer; module: modules of PyTorch only; op: innermost operator around the launch, or
    another range; class: class of the kernel. op and class have no host time"""
choices = ["layer", "module", "op", "class"]
default = "layer"
[columns]
layer = "layer, or what `by` names; NULL for time without one"
layer_type = "type, from layers.json, the class of the module or the class of its kernels"
kernels = """number of kernels (a CUDA graph traced as a whole counts as one); NULL without GPU work
    in the trace"""
gpu_ns = "sum of kernel durations in the window; NULL without GPU work in the trace"
host_ns = """exclusive host time of its ranges in the window (layer_host_time); on a GPU, the time
    to launch; NULL without layer ranges"""
clock = """gpu or host (parameter clock): clock of iteration_ns, share_pct and the order; rows
    without time on this clock are left out"""
iteration_ns = "time on this clock ÷ iterations in the window; NULL without iterations"
share_pct = """time on this clock ÷ its sum over all rows: on the GPU over all kernels in the
    window, on the host over its iterations"""
evidence = """nvtx (a range around the launch; on the host clock, the range itself), nvtx backward
    (a backward range), torch module, torch op, torch range, sequence (autograd sequence number),
    kernel name (by=class); NULL for time without a layer"""
measured_over = "steady state, all iterations or whole trace"
[plot]
kind = "barh"
x = "layer"
y = ["share_pct"]
series = "phase"
limit = 30
*/
WITH
setting AS (SELECT getvariable('by') AS by_what),
named AS (
    SELECT o.trace_id, o.phase, o.duration_ns,
        CASE s.by_what
            WHEN 'op' THEN regexp_replace(
                a.text, '(?s),\s*(?:seq|op_id|sizes|input_op_ids)\s*=.*', '')
            WHEN 'class' THEN nullif(c.class, 'other')
            WHEN 'module' THEN m.module
            ELSE o.layer
        END AS layer,
        CASE s.by_what
            WHEN 'op' THEN CASE a.source
                WHEN 'operator' THEN 'torch op' WHEN 'module' THEN 'torch module'
                WHEN 'python' THEN 'torch range' ELSE a.source END
            WHEN 'class' THEN 'kernel name'
            ELSE o.layer_evidence
        END AS evidence
    FROM window_op o
    CROSS JOIN setting s
    LEFT JOIN _module_call m
        ON s.by_what = 'module' AND m.trace_id = o.trace_id AND m.module = o.layer
    LEFT JOIN kernel_class c
        ON s.by_what = 'class' AND c.trace_id = o.trace_id AND c.name = o.name
    LEFT JOIN kernel_scope k
        ON s.by_what = 'op' AND k.trace_id = o.trace_id AND k.kernel_id = o.op_id
        AND o.op_kind = 'kernel'
    LEFT JOIN annotation a ON a.trace_id = k.trace_id AND a.annotation_id = k.annotation_id
    WHERE o.op_kind IN ('kernel', 'graph')
),
gpu AS (
    SELECT trace_id, layer, phase, if(layer IS NULL, NULL, evidence) AS layer_evidence,
        count(*) AS kernels, sum(duration_ns)::BIGINT AS gpu_ns
    FROM named
    GROUP BY ALL
),
host AS (
    SELECT h.trace_id, if(s.by_what = 'module', m.module, h.layer) AS layer, h.phase,
        if(s.by_what = 'module' AND m.module IS NULL, NULL, h.layer_evidence) AS layer_evidence,
        sum(h.host_ns)::BIGINT AS host_ns
    FROM layer_host_time h
    CROSS JOIN setting s
    LEFT JOIN _module_call m ON m.trace_id = h.trace_id AND m.module = h.layer
    WHERE s.by_what IN ('layer', 'module')
    GROUP BY ALL
),
-- A layer may have time on one clock only. Layer and phase are NULL for unattributed time, which
-- IS NOT DISTINCT FROM matches.
timed AS (
    SELECT c.*, coalesce(g.layer, h.layer) AS layer, coalesce(g.phase, h.phase) AS phase,
        coalesce(g.layer_evidence, h.layer_evidence) AS evidence,
        CASE WHEN c.has_gpu THEN coalesce(g.kernels, 0) END AS kernels,
        CASE WHEN c.has_gpu THEN coalesce(g.gpu_ns, 0) END AS gpu_ns, h.host_ns,
        CASE c.clock WHEN 'gpu' THEN g.gpu_ns ELSE h.host_ns END AS ns
    FROM gpu g
    FULL JOIN host h
        ON  h.trace_id = g.trace_id AND h.layer IS NOT DISTINCT FROM g.layer
        AND h.phase IS NOT DISTINCT FROM g.phase
        AND h.layer_evidence IS NOT DISTINCT FROM g.layer_evidence
    JOIN layer_clock c ON c.trace_id = coalesce(g.trace_id, h.trace_id)
)
SELECT t.trace_id, t.layer,
    if(getvariable('by') = 'class', t.layer, y.layer_type) AS layer_type,
    t.phase, t.kernels, t.gpu_ns, t.host_ns, t.clock,
    t.ns / t.iterations AS iteration_ns,
    100.0 * t.ns / nullif(sum(t.ns) OVER (PARTITION BY t.trace_id), 0) AS share_pct,
    t.evidence, t.measured_over
FROM timed t
LEFT JOIN layer_type y ON y.trace_id = t.trace_id AND y.layer = t.layer
WHERE t.ns IS NOT NULL
ORDER BY t.trace_id, t.ns DESC, t.layer NULLS LAST, t.phase NULLS LAST, t.evidence NULLS LAST
