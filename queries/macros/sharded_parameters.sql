-- The end of an iteration with fully sharded parameters, for the rows of scheme fsdp of the
-- relation or CTE `points`: id, trace_id, scheme, byte_s and all_reduce_s (time of a ring
-- all-reduce: per byte, and of few bytes). An all-gather or a reduce-scatter takes half of an
-- all-reduce. Reads _dp_layer and _dp_run. A block is a layer with parameters and those without
-- that follow it; its parameters are gathered while the block before runs. The link carries one
-- collective at a time.
CREATE OR REPLACE TEMP MACRO sharded_end(points) AS TABLE
WITH RECURSIVE
block AS (
    SELECT trace_id, number, gradient_bytes,
        after_s - lead(after_s, 1, 0) OVER up AS forward_s,
        ready_s - lead(ready_s, 1, 0) OVER up AS backward_s
    FROM _dp_layer WINDOW up AS (PARTITION BY trace_id ORDER BY number)
),
pass AS MATERIALIZED (
    SELECT p.id, b.number, b.forward_s, b.backward_s,
        (p.all_reduce_s + b.gradient_bytes * p.byte_s) / 2 AS pass_s,
        lead(pass_s, 1, 0) OVER up AS next_s, lag(pass_s) OVER up AS before_s
    FROM query_table(points) p JOIN block b USING (trace_id)
    WHERE p.scheme = 'fsdp'
    WINDOW up AS (PARTITION BY p.id ORDER BY b.number)
),
forward AS (
    SELECT id, arg_min(pass_s, number) AS first_s, sum(greatest(forward_s, next_s)) AS rest_s
    FROM pass GROUP BY id
),
-- From the start of the backward pass: when a block starts, when the link is free of the
-- reduce-scatter of the block after it, and when that block ended.
backward AS (
    SELECT id, number, pass_s AS start_s, pass_s AS link_s, NULL::DOUBLE AS end_s
    FROM pass QUALIFY row_number() OVER (PARTITION BY id ORDER BY number DESC) = 1
    UNION ALL
    SELECT id, number - 1, greatest(done_s, gathered_s),
        greatest(done_s, gathered_s, link_s) + pass_s, done_s
    FROM (
        SELECT b.id, b.number, b.link_s, p.pass_s, b.start_s + p.backward_s AS done_s,
            greatest(b.start_s, b.link_s) + p.before_s AS gathered_s
        FROM backward b JOIN pass p USING (id, number)
    )
)
SELECT p.id, r.rest_s + greatest(f.first_s, r.forward_s - l.forward_s) + f.rest_s
    + greatest(b.end_s + r.backward_s - l.backward_s, b.link_s) AS end_s
FROM query_table(points) p
JOIN forward f USING (id)
JOIN backward b ON b.id = p.id AND b.number = 0
JOIN _dp_run r ON r.trace_id = p.trace_id
JOIN (
    SELECT trace_id, max(after_s) AS forward_s, max(ready_s) AS backward_s
    FROM _dp_layer GROUP BY trace_id
) l ON l.trace_id = p.trace_id;
