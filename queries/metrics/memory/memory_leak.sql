/*
title    = "Growth over iterations"
question = "Does memory grow from iteration to iteration, and what grows?"
source   = """live bytes after the last event of each iteration; slope by Theil and Sen: the median
    of the slopes between all pairs of iterations"""
grain    = "memory space (part is `all`), or class, layer and operator that grows"
needs    = ["memory_iteration", "allocation"]
optional = ["_iteration_live", "_stack_code"]
reduce   = "concat"
returns = [
    "trace_id", "process_id", "device_id", "allocator", "part", "layer", "operator", "iterations",
    "first_bytes", "last_bytes", "growth_bytes_per_iteration", "code",
]
[columns]
part = "all, or class of the bytes that grow"
layer = "layer; NULL for all, or when unknown"
operator = "operator; NULL for all, or when unknown"
iterations = "iterations compared; the first is left out, since it allocates what stays"
first_bytes = "live bytes after the first of them"
last_bytes = "live bytes after the last of them"
growth_bytes_per_iteration = {unit = "byte", doc = """Theil–Sen slope; NULL with fewer iterations
    than `min_iterations`"""}
code = "innermost Python frames of its largest call stack; NULL without"
[params.min_iterations]
doc     = "iterations that a slope needs"
default = 3
[params.top]
doc     = "parts shown per memory space"
default = 10
[plot]
kind  = "barh"
x     = ["part", "layer", "operator"]
y     = [["growth_bytes_per_iteration"]]
limit = 20
*/
WITH
counted AS (
    SELECT DISTINCT space, iteration FROM _iteration_live
),
part AS (
    SELECT trace_id, space, iteration, 'all' AS part, NULL AS layer, NULL AS operator,
        sum(bytes) AS bytes, NULL::BIGINT AS stack_id
    FROM _iteration_live GROUP BY trace_id, space, iteration
    UNION ALL
    SELECT trace_id, space, iteration, class, layer, operator, sum(bytes),
        arg_max(stack_id, largest_bytes)
    FROM _iteration_live GROUP BY trace_id, space, iteration, class, layer, operator
),
-- A part without bytes after an iteration has 0 then.
every AS (
    SELECT n.trace_id, n.space, n.part, n.layer, n.operator, i.iteration,
        coalesce(p.bytes, 0)::BIGINT AS bytes, p.stack_id
    FROM (SELECT DISTINCT trace_id, space, part, layer, operator FROM part) AS n
    JOIN counted AS i USING (space)
    LEFT JOIN part AS p
        ON p.space = n.space AND p.part = n.part
        AND p.layer IS NOT DISTINCT FROM n.layer AND p.operator IS NOT DISTINCT FROM n.operator
        AND p.iteration = i.iteration
),
slope AS (
    SELECT a.trace_id, a.space, a.part, a.layer, a.operator,
        median((b.bytes - a.bytes) / (b.iteration - a.iteration)) AS slope
    FROM every AS a
    JOIN every AS b
        ON b.space = a.space AND b.part = a.part
        AND b.layer IS NOT DISTINCT FROM a.layer AND b.operator IS NOT DISTINCT FROM a.operator
        AND b.iteration > a.iteration
    GROUP BY ALL
),
summed AS (
    SELECT trace_id, space, part, layer, operator, count(*) AS iterations,
        arg_min(bytes, iteration) AS first_bytes, arg_max(bytes, iteration) AS last_bytes,
        arg_max(stack_id, iteration) AS stack_id
    FROM every GROUP BY ALL
),
shown AS (
    SELECT s.*,
        if(
            s.iterations >= getvariable('min_iterations'), l.slope, NULL
        ) AS growth_bytes_per_iteration,
        row_number() OVER (
            PARTITION BY s.trace_id, s.space
            ORDER BY s.part <> 'all', l.slope DESC NULLS LAST, s.part, s.layer, s.operator
        ) AS number
    FROM summed AS s
    LEFT JOIN slope AS l
        ON l.space = s.space AND l.part = s.part
        AND l.layer IS NOT DISTINCT FROM s.layer AND l.operator IS NOT DISTINCT FROM s.operator
    WHERE s.part = 'all' OR l.slope > 0
),
space AS (
    SELECT DISTINCT trace_id, space, process_id, device_id, allocator FROM allocation
)
SELECT s.trace_id, p.process_id, p.device_id, p.allocator, s.part, s.layer, s.operator,
    s.iterations, s.first_bytes, s.last_bytes, s.growth_bytes_per_iteration, c.code
FROM shown AS s
JOIN space AS p USING (space)
LEFT JOIN _stack_code AS c ON c.trace_id = s.trace_id AND c.stack_id = s.stack_id
WHERE s.number <= 1 + getvariable('top')
ORDER BY s.trace_id, p.process_id, p.device_id, p.allocator, s.number
