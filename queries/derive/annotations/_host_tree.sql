/*
title    = "Operators and calls of CUDA by nesting"
question = "Which operator encloses each operator and each call of CUDA directly?"
source   = """ranges of one thread nest: the innermost range that is open at the start encloses it;
    calls of modules are left out"""
grain    = "operator, range of record_function or call of CUDA on a host thread"
optional = ["annotation", "api_call"]
returns = ["trace_id", "annotation_id", "api_call_id", "parent_id", "duration_ns"]
[columns]
annotation_id = "operator or range; NULL for a call"
api_call_id = "call; NULL for an operator or range"
parent_id = "operator or range that encloses it; NULL at the root"
duration_ns = "host time"
[advice]
missing = """
needs operators of PyTorch; record them with torch.profiler (`export_chrome_trace`)"""
*/
-- As in annotation_tree: starts and ends are sorted once; sums over all events give the depths, and
-- the last start of the level above is the parent.
WITH
node AS MATERIALIZED (
    SELECT *, row_number() OVER ()::BIGINT AS node
    FROM (
        SELECT trace_id, process_id, thread_id, annotation_id, NULL::BIGINT AS api_call_id,
            start_ns, end_ns
        FROM annotation WHERE source IN ('operator', 'python') AND kind = 'push_pop'
        UNION ALL
        SELECT a.trace_id, a.process_id, a.thread_id, NULL, a.api_call_id, a.start_ns, a.end_ns
        FROM api_call AS a
        SEMI JOIN (SELECT DISTINCT trace_id FROM annotation WHERE source = 'operator') AS o
            USING (trace_id)
        WHERE a.api = 'cuda'
    )
),
thread AS MATERIALIZED (
    SELECT *, row_number() OVER ()::INTEGER AS stack
    FROM (SELECT DISTINCT trace_id, process_id, thread_id FROM node)
),
stacked AS MATERIALIZED (
    SELECT t.stack, n.node, n.start_ns, n.end_ns, n.annotation_id IS NULL AS is_call
    FROM node AS n
    JOIN thread AS t
        ON  t.trace_id = n.trace_id AND t.process_id IS NOT DISTINCT FROM n.process_id
        AND t.thread_id IS NOT DISTINCT FROM n.thread_id
),
-- At one time: ends of earlier nodes (turn NULL), then starts, longest first, then empty nodes.
event AS (
    SELECT stack, start_ns AS at_ns, start_ns - end_ns AS turn, is_call, node * 2 AS event
    FROM stacked
    UNION ALL
    SELECT stack, end_ns, if(start_ns = end_ns, 0, NULL), is_call, node * 2 + 1 FROM stacked
),
ordered AS (
    SELECT event // 2 AS node, event % 2 = 0 AS begins, if(event % 2 = 0, 1, -1) AS step
    FROM event
    ORDER BY stack, at_ns, turn NULLS FIRST, is_call, event
),
leveled AS (
    SELECT *, row_number() OVER () AS position,
        (sum(step) OVER (ROWS UNBOUNDED PRECEDING))::INTEGER - begins::INTEGER AS depth,
        lag(if(begins, node, NULL)) OVER () AS began_before
    FROM ordered
),
parented AS (
    SELECT node, depth,
        last_value(began_before IGNORE NULLS) OVER (ROWS UNBOUNDED PRECEDING) AS parent
    FROM (FROM leveled WHERE begins ORDER BY depth, position)
)
-- Times in microseconds can make a call end after the operator around it: the next one holds it.
SELECT n.trace_id, n.annotation_id, n.api_call_id,
    CASE WHEN n.end_ns <= o.end_ns THEN o.annotation_id
         WHEN n.end_ns <= u.end_ns THEN u.annotation_id END AS parent_id,
    n.end_ns - n.start_ns AS duration_ns
FROM parented AS p
JOIN node AS n ON n.node = p.node
LEFT JOIN parented AS q ON p.depth > 0 AND q.node = p.parent
LEFT JOIN node AS o ON o.node = q.node
LEFT JOIN node AS u ON q.depth > 0 AND u.node = q.parent
