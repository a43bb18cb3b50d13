/*
title    = "Operators by cause without a GPU"
question = "Which operators does the time of each cause go to, in steps without GPU operations?"
source   = """self time as `key_averages` of torch.profiler: without operators inside; an operator
    counts for the cause of the moment at which it starts"""
grain    = "cause and operator of a process; operator NULL for the time outside operators"
needs    = ["host_cause_interval", "_host_span"]
optional = ["annotation", "_host_tree", "_autograd_thread", "operator_input"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.cause]
doc = "as host_cause_interval.cause"
[columns.operator]
doc = "operator of PyTorch; NULL for the time outside operators"
[columns.calls]
doc = "number of calls in the steps; NULL for the time outside operators"
[columns.self_ns]
unit = "ns"
doc = """time in it without operators inside, on the thread of the steps and the threads of the
    autograd engine that work for it"""
[columns.input_type]
doc = """type of the first inputs, such as float32, of operators whose FLOP follow from their inputs
    (operator_input); NULL when they differ or are unknown"""
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
typed AS (
    SELECT trace_id, annotation_id, regexp_extract(input_types, '"(\w+)"', 1) AS input_type
    FROM operator_input
),
called AS (
    SELECT a.trace_id, a.process_id, a.start_ns,
        regexp_replace(a.text, '(?s), (?:seq|op_id|sizes) = .*', '') AS operator,
        a.end_ns - a.start_ns - coalesce(i.inside_ns, 0) AS self_ns,
        nullif(t.input_type, '') AS input_type
    FROM annotation a
    SEMI JOIN member m
        ON  m.trace_id = a.trace_id AND m.process_id = a.process_id
        AND m.thread_id IS NOT DISTINCT FROM a.thread_id
    LEFT JOIN inside i ON i.trace_id = a.trace_id AND i.annotation_id = a.annotation_id
    LEFT JOIN typed t ON t.trace_id = a.trace_id AND t.annotation_id = a.annotation_id
    WHERE a.source = 'operator' AND a.kind = 'push_pop'
),
by_operator AS (
    SELECT c.trace_id, c.process_id, v.cause, c.operator, count(*) AS calls,
        sum(c.self_ns)::BIGINT AS self_ns,
        CASE WHEN count(DISTINCT c.input_type) = 1 THEN any_value(c.input_type) END AS input_type
    FROM called c
    ASOF JOIN host_cause_interval v
        ON  v.trace_id = c.trace_id AND v.process_id = c.process_id AND c.start_ns >= v.start_ns
    WHERE c.start_ns < v.end_ns
    GROUP BY ALL
),
whole AS (
    SELECT trace_id, process_id, cause, sum(end_ns - start_ns) AS ns
    FROM host_cause_interval GROUP BY ALL
)
FROM by_operator
UNION ALL
SELECT w.trace_id, w.process_id, w.cause, NULL, NULL,
    greatest(w.ns - coalesce(sum(o.self_ns), 0), 0)::BIGINT, NULL
FROM whole w
LEFT JOIN by_operator o USING (trace_id, process_id, cause)
GROUP BY w.trace_id, w.process_id, w.cause, w.ns
