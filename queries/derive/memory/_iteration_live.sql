/*
title    = "Live bytes after each iteration"
question = "What is live after the last event of each iteration?"
source   = """the first iteration is left out if there are three or more: it allocates gradients and
    optimizer state, which stay"""
grain    = "iteration, class, layer, operator and call stack, per memory space"
needs    = ["memory_iteration", "allocation"]
returns = [
    "trace_id", "space", "iteration", "class", "layer", "operator", "stack_id", "bytes",
    "largest_bytes",
]
[columns]
iteration = "number of the iteration"
class = "class of the bytes"
stack_id = "call stack; NULL without one"
bytes = {unit = "byte", doc = "live bytes, as requested"}
largest_bytes = "largest of the allocations"
*/
WITH
counted AS (
    SELECT trace_id, space, iteration, end_sequence FROM memory_iteration
    QUALIFY iteration > min(iteration) OVER (PARTITION BY space)
        OR count(*) OVER (PARTITION BY space) <= 2
),
-- Most allocations end within their iteration: find them before the join of ranges.
kept AS (
    SELECT a.*
    FROM allocation AS a
    ASOF JOIN counted AS c
        ON c.space = a.space AND coalesce(a.born_sequence, -1) <= c.end_sequence
    WHERE coalesce(a.died_sequence > c.end_sequence, true)
)
SELECT k.trace_id, k.space, c.iteration, k.class, k.layer, k.operator, k.stack_id,
    sum(k.requested_bytes)::BIGINT AS bytes, max(k.requested_bytes) AS largest_bytes
FROM kept AS k
JOIN counted AS c
    ON c.space = k.space AND coalesce(k.born_sequence, -1) <= c.end_sequence
    AND coalesce(k.died_sequence > c.end_sequence, true)
GROUP BY k.trace_id, k.space, c.iteration, k.class, k.layer, k.operator, k.stack_id
