/*
title    = "Operators"
question = "Which operators of PyTorch take most time on the host and on the GPU?"
source   = """as `key_averages(group_by_input_shape=True)` of torch.profiler, except that a kernel
    belongs to the innermost operator around its launch, not to the one with its External id, and
    the marks of tbd-trace (iterations, phases, layers) are left out"""
grain    = "operator, with `by=shape` and shapes of its inputs, per trace"
needs    = ["_host_tree"]
optional = ["annotation", "gpu_op", "op_launch", "range_gpu_time"]
reduce   = "concat"
returns = [
    "trace_id", "op", "input_shapes", "calls", "host_ns", "self_host_ns", "gpu_ns", "self_gpu_ns",
    "self_gpu_pct", "launches",
]
[columns]
op = "operator or range of record_function; NULL for GPU operations that none of them launches"
input_shapes = "shapes of its inputs; NULL with `by=name`, or if they were not recorded"
calls = "number of calls"
host_ns = "host time, with operators and calls of CUDA inside"
self_host_ns = "host time without operators and calls of CUDA inside"
gpu_ns = "time of the GPU operations launched inside; NULL without GPU operations in the trace"
self_gpu_ns = """time of the GPU operations whose launch it encloses as the innermost operator, or,
    outside of operators, as the innermost range"""
self_gpu_pct = "part of the time of all GPU operations of the trace"
launches = "calls that launch GPU operations, inside it"
[params.by]
doc     = "shape: a row per operator and shapes of its inputs; name: per operator"
choices = ["shape", "name"]
default = "shape"
[plot]
kind  = "barh"
x     = ["op", "input_shapes"]
y     = [["self_host_ns"], ["self_gpu_ns"]]
limit = 30
*/
WITH
-- Ranges by which tbd-trace marks a program (docs/reference/capture_directory.md).
mark AS (
    SELECT trace_id, annotation_id FROM annotation
    WHERE source = 'python'
        AND regexp_matches(text, '^(?:iteration \d+|phase:.*|layer(?:_backward)?:.*)$')
),
-- _host_tree without the marks: their contents belong to the range around them.
tree AS (
    WITH RECURSIVE outward AS (
        FROM _host_tree ANTI JOIN mark USING (trace_id, annotation_id)
        UNION ALL
        SELECT w.* REPLACE (t.parent_id AS parent_id)
        FROM outward AS w
        JOIN mark AS m ON m.trace_id = w.trace_id AND m.annotation_id = w.parent_id
        JOIN _host_tree AS t ON t.trace_id = m.trace_id AND t.annotation_id = m.annotation_id
    )
    FROM outward AS w
    ANTI JOIN mark AS m ON m.trace_id = w.trace_id AND m.annotation_id = w.parent_id
),
operator AS (
    SELECT trace_id, annotation_id, end_ns - start_ns AS host_ns,
        regexp_replace(text, '(?s), (?:seq|op_id|sizes) = .*', '') AS op,
        if(
            getvariable('by') = 'shape',
            nullif(regexp_extract(text, '(?s), sizes = (.*)', 1), ''), NULL
        ) AS input_shapes
    FROM annotation ANTI JOIN mark USING (trace_id, annotation_id)
    WHERE source IN ('operator', 'python') AND kind = 'push_pop'
),
inner_time AS (
    SELECT trace_id, parent_id AS annotation_id, sum(duration_ns)::BIGINT AS inside_ns
    FROM tree WHERE parent_id IS NOT NULL
    GROUP BY ALL
),
-- Ranges of record_function own launches inside them that no operator encloses.
owner AS (
    WITH RECURSIVE outward AS (
        SELECT trace_id, api_call_id, parent_id, parent_id AS owner_id
        FROM tree WHERE api_call_id IS NOT NULL
        UNION ALL
        SELECT w.trace_id, w.api_call_id, t.parent_id, t.parent_id
        FROM outward AS w
        JOIN tree AS t ON t.trace_id = w.trace_id AND t.annotation_id = w.parent_id
        JOIN annotation AS a ON a.trace_id = w.trace_id AND a.annotation_id = w.parent_id
        WHERE a.source = 'python' AND t.parent_id IS NOT NULL
    )
    SELECT w.trace_id, w.api_call_id,
        coalesce(
            max(w.owner_id) FILTER (a.source = 'operator'), max(w.owner_id)
        ) AS annotation_id
    FROM outward AS w
    LEFT JOIN annotation AS a ON a.trace_id = w.trace_id AND a.annotation_id = w.owner_id
    GROUP BY ALL
),
owned AS (
    SELECT o.trace_id, n.annotation_id, sum(o.duration_ns)::BIGINT AS self_gpu_ns,
        count(DISTINCT l.api_call_id) AS launches
    FROM gpu_op AS o
    LEFT JOIN op_launch AS l USING (trace_id, op_kind, op_id)
    LEFT JOIN owner AS n ON n.trace_id = l.trace_id AND n.api_call_id = l.api_call_id
    GROUP BY ALL
),
gpu AS (
    SELECT trace_id, sum(duration_ns) AS all_gpu_ns FROM gpu_op GROUP BY trace_id
),
called AS (
    SELECT trace_id, annotation_id, op, input_shapes, host_ns,
        host_ns - coalesce(i.inside_ns, 0) AS self_host_ns
    FROM operator LEFT JOIN inner_time AS i USING (trace_id, annotation_id)
    UNION ALL BY NAME
    SELECT trace_id FROM gpu SEMI JOIN operator USING (trace_id)
)
SELECT o.trace_id, o.op, o.input_shapes, count(o.annotation_id) AS calls,
    sum(o.host_ns)::BIGINT AS host_ns, sum(o.self_host_ns)::BIGINT AS self_host_ns,
    if(
        any_value(g.trace_id) IS NULL, NULL,
        coalesce(sum(if(o.annotation_id IS NULL, l.self_gpu_ns, r.gpu_sum_ns)), 0)
    )::BIGINT AS gpu_ns,
    if(any_value(g.trace_id) IS NULL, NULL, coalesce(sum(l.self_gpu_ns), 0))::BIGINT AS self_gpu_ns,
    100 * coalesce(sum(l.self_gpu_ns), 0) / any_value(g.all_gpu_ns) AS self_gpu_pct,
    coalesce(sum(if(o.annotation_id IS NULL, l.launches, r.launches)), 0)::BIGINT AS launches
FROM called AS o
LEFT JOIN owned AS l
    ON l.trace_id = o.trace_id AND l.annotation_id IS NOT DISTINCT FROM o.annotation_id
LEFT JOIN range_gpu_time AS r
    ON r.trace_id = o.trace_id AND r.annotation_id = o.annotation_id
LEFT JOIN gpu AS g ON g.trace_id = o.trace_id
GROUP BY o.trace_id, o.op, o.input_shapes
HAVING count(o.annotation_id) > 0 OR sum(l.self_gpu_ns) > 0
ORDER BY o.trace_id, self_gpu_ns DESC NULLS LAST, self_host_ns DESC NULLS LAST, o.op NULLS LAST,
    o.input_shapes NULLS FIRST
