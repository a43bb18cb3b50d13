/*
title    = "Operators of steps without a GPU"
question = "Which cause of its step does each call of an operator count for, and how long is it?"
source   = """self time as `key_averages` of torch.profiler: without operators inside; an operator
    counts for the cause of the moment at which it starts"""
grain    = "call of an operator in a step of a process without GPU operations"
needs    = ["host_cause_interval", "_host_span"]
optional = ["annotation", "_host_tree", "_autograd_thread"]
returns = [
    "trace_id", "process_id", "annotation_id", "iteration", "cause", "operator", "sizes", "self_ns",
]
[columns]
annotation_id = "the call"
operator = "operator of PyTorch"
sizes = "dimensions of its inputs, as in the text of the annotation; NULL if not recorded"
self_ns = """time in it without operators inside, on the thread of the steps or a thread of the
    autograd engine that works for it"""
*/
WITH
member AS (
    SELECT DISTINCT trace_id, process_id, thread_id FROM _host_span
    UNION
    SELECT trace_id, process_id, thread_id FROM _autograd_thread
),
inside AS (
    SELECT trace_id, parent_id AS annotation_id, sum(duration_ns)::BIGINT AS inside_ns
    FROM _host_tree WHERE parent_id IS NOT NULL
    GROUP BY ALL
),
called AS (
    SELECT a.trace_id, a.process_id, a.annotation_id, a.start_ns,
        regexp_replace(a.text, '(?s), (?:seq|op_id|sizes) = .*', '') AS operator,
        nullif(regexp_extract(a.text, '(?s), sizes = (.*)', 1), '') AS sizes,
        a.end_ns - a.start_ns - coalesce(i.inside_ns, 0) AS self_ns
    FROM annotation a
    SEMI JOIN member m
        ON  m.trace_id = a.trace_id AND m.process_id = a.process_id
        AND m.thread_id IS NOT DISTINCT FROM a.thread_id
    LEFT JOIN inside i ON i.trace_id = a.trace_id AND i.annotation_id = a.annotation_id
    WHERE a.source = 'operator' AND a.kind = 'push_pop'
)
SELECT c.trace_id, c.process_id, c.annotation_id, v.iteration, v.cause, c.operator, c.sizes,
    c.self_ns
FROM called c
ASOF JOIN host_cause_interval v
    ON  v.trace_id = c.trace_id AND v.process_id = c.process_id AND c.start_ns >= v.start_ns
WHERE c.start_ns < v.end_ns
