/*
title    = "Modules"
question = "Which modules of a PyTorch model take most time, forward, backward and recomputed?"
source   = """calls of modules recorded by torch.profiler (`with_stack=True`); a backward kernel
    belongs to the module of the forward operator with its autograd sequence number; where the
    program marks its layers, a layer is the module around its range"""
grain    = "module by its path in the model, per trace"
needs    = ["_module_call"]
optional = ["annotation", "op_scope", "gpu_op"]
reduce   = "concat"
returns = [
    "trace_id", "module", "class", "calls", "host_ns", "self_host_ns", "gpu_ns", "self_gpu_ns",
    "forward_ns", "backward_ns", "recompute_ns", "share_pct", "evidence",
]
[columns]
module = "path of the module; modules of one class are numbered"
class = "class of the module"
calls = "number of calls of its forward"
host_ns = "host time of these calls"
self_host_ns = "host time of these calls without the modules inside"
gpu_ns = """time of the GPU operations of the module and the modules inside; NULL without GPU
    operations in the trace"""
self_gpu_ns = "time of the GPU operations of the module itself"
forward_ns = "of gpu_ns, the forward pass, or the only pass of an inference"
backward_ns = "of gpu_ns, the backward pass"
recompute_ns = """of gpu_ns, forward work repeated in the backward pass (checkpointing); where the
    program marks its layers, it counts as backward"""
share_pct = "part of the time of all GPU operations of the trace"
evidence = """torch module (launched inside the call), sequence (backward), torch range (launched
    inside the range of a layer), or several; NULL without GPU work"""
[plot]
kind  = "barh"
x     = ["module"]
y     = [["forward_ns", "backward_ns", "recompute_ns"]]
limit = 40
*/
WITH
-- The hooks of a module mark its layer, so that its call is the last to begin before the range.
marked AS (
    SELECT r.trace_id, substr(r.text, 7) AS layer, min(m.text) AS module
    FROM (FROM annotation WHERE source = 'python' AND starts_with(text, 'layer:')) AS r
    ASOF JOIN (FROM annotation WHERE source = 'module' AND text IS NOT NULL) AS m
        ON  m.trace_id = r.trace_id AND m.process_id IS NOT DISTINCT FROM r.process_id
        AND m.thread_id IS NOT DISTINCT FROM r.thread_id AND m.start_ns <= r.start_ns
    WHERE m.end_ns >= r.end_ns
    GROUP BY ALL
),
own AS (
    SELECT o.trace_id, coalesce(k.module, o.layer) AS module,
        CASE o.layer_evidence
            WHEN 'torch module backward' THEN 'recompute'
            WHEN 'sequence' THEN 'backward' WHEN 'torch range backward' THEN 'backward'
            ELSE 'forward'
        END AS pass,
        CASE
            WHEN k.module IS NOT NULL THEN 'torch range'
            WHEN o.layer_evidence = 'sequence' THEN 'sequence'
            ELSE 'torch module'
        END AS evidence,
        sum(o.duration_ns) AS gpu_ns
    FROM op_scope AS o
    LEFT JOIN marked AS k USING (trace_id, layer)
    SEMI JOIN _module_call AS m
        ON m.trace_id = o.trace_id AND m.module = coalesce(k.module, o.layer)
    GROUP BY ALL
),
-- The time of a module counts in each module around it.
summed AS (
    SELECT trace_id, outer_module AS module, sum(gpu_ns) AS gpu_ns,
        sum(gpu_ns) FILTER (module = outer_module) AS self_gpu_ns,
        sum(gpu_ns) FILTER (pass = 'forward') AS forward_ns,
        sum(gpu_ns) FILTER (pass = 'backward') AS backward_ns,
        sum(gpu_ns) FILTER (pass = 'recompute') AS recompute_ns,
        string_agg(DISTINCT evidence, ' + ' ORDER BY evidence DESC) AS evidence
    FROM (
        SELECT *, unnest(list_transform(
            range(1, len(string_split(module, '/')) + 1),
            lambda depth: array_to_string(string_split(module, '/')[:depth], '/')
        )) AS outer_module
        FROM own
    )
    GROUP BY trace_id, outer_module
),
inner_time AS (
    SELECT trace_id, regexp_replace(module, '/[^/]*$', '') AS module, sum(host_ns) AS inside_ns
    FROM _module_call WHERE contains(module, '/')
    GROUP BY ALL
),
gpu AS (
    SELECT trace_id, sum(duration_ns) AS all_gpu_ns FROM gpu_op GROUP BY trace_id
)
SELECT m.trace_id, m.module, regexp_replace(m.module, '^.*/|_\d+$', '', 'g') AS class, m.calls,
    m.host_ns, greatest(m.host_ns - coalesce(i.inside_ns, 0), 0)::BIGINT AS self_host_ns,
    if(g.trace_id IS NULL, NULL, coalesce(s.gpu_ns, 0))::BIGINT AS gpu_ns,
    if(g.trace_id IS NULL, NULL, coalesce(s.self_gpu_ns, 0))::BIGINT AS self_gpu_ns,
    if(g.trace_id IS NULL, NULL, coalesce(s.forward_ns, 0))::BIGINT AS forward_ns,
    if(g.trace_id IS NULL, NULL, coalesce(s.backward_ns, 0))::BIGINT AS backward_ns,
    if(g.trace_id IS NULL, NULL, coalesce(s.recompute_ns, 0))::BIGINT AS recompute_ns,
    100 * coalesce(s.gpu_ns, 0) / g.all_gpu_ns AS share_pct, s.evidence
FROM _module_call AS m
LEFT JOIN summed AS s USING (trace_id, module)
LEFT JOIN inner_time AS i USING (trace_id, module)
LEFT JOIN gpu AS g USING (trace_id)
ORDER BY m.trace_id, gpu_ns DESC NULLS LAST, m.host_ns DESC, m.module
