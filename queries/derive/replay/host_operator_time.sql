/*
title    = "Operators by cause without a GPU"
question = "Which operators does the time of each cause go to, in steps without GPU operations?"
source   = """self time as `key_averages` of torch.profiler: without operators inside; an operator
    counts for the cause of the moment at which it starts"""
grain    = "cause and operator of a process; operator NULL for the time outside operators"
needs    = ["host_cause_interval", "_host_operator"]
optional = ["operator_input"]
returns = ["trace_id", "process_id", "cause", "operator", "calls", "self_ns", "input_type"]
[columns]
operator = "operator of PyTorch; NULL for the time outside operators"
calls = "number of calls in the steps; NULL for the time outside operators"
self_ns = """time in it without operators inside, on the thread of the steps and the threads of the
    autograd engine that work for it"""
input_type = """type of the first inputs, such as float32, of operators whose FLOP follow from their
    inputs (operator_input); NULL when they differ or are unknown"""
*/
WITH
by_operator AS (
    SELECT o.trace_id, o.process_id, o.cause, o.operator, count(*) AS calls,
        sum(o.self_ns)::BIGINT AS self_ns,
        CASE WHEN count(DISTINCT t.input_type) = 1 THEN any_value(t.input_type) END AS input_type
    FROM _host_operator o
    LEFT JOIN (
        SELECT trace_id, annotation_id,
            nullif(regexp_extract(input_types, '"(\w+)"', 1), '') AS input_type
        FROM operator_input
    ) t ON t.trace_id = o.trace_id AND t.annotation_id = o.annotation_id
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
