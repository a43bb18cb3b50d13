/*
title    = "Contents of the peak"
question = "Which allocations are live at the peak, and which code made them?"
grain    = "class, layer, operator and call stack, per memory space"
needs    = ["allocation", "_peak_allocation"]
optional = ["_stack_code"]
reduce   = "concat"
returns = [
    "trace_id", "process_id", "device_id", "allocator", "class", "layer", "operator", "allocations",
    "requested_bytes", "share_pct", "largest_bytes", "code", "evidence",
]
[columns]
class = "class of the bytes"
allocations = "number of allocations"
requested_bytes = "bytes live at the peak"
share_pct = "part of all bytes live at the peak"
largest_bytes = "largest of the allocations"
code = "innermost Python frames of the call stack, outermost last; NULL without Python frames"
evidence = "evidence of the class: collector, stack, none"
[params.top]
doc     = "rows per memory space; 0 for all"
default = 30
[plot]
kind  = "barh"
x     = ["class", "layer", "operator"]
y     = [["requested_bytes"]]
limit = 30
*/
WITH
grouped AS (
    SELECT trace_id, space, process_id, device_id, allocator, class, layer, operator, stack_id,
        evidence, count(*) AS allocations, sum(requested_bytes)::BIGINT AS requested_bytes,
        max(requested_bytes) AS largest_bytes
    FROM _peak_allocation
    GROUP BY ALL
),
ranked AS (
    SELECT *,
        -- The denominator includes rows that `top` leaves out.
        100 * requested_bytes / nullif(sum(requested_bytes) OVER (PARTITION BY space), 0)
            AS share_pct,
        row_number() OVER (
            PARTITION BY space
            ORDER BY requested_bytes DESC, class, layer, operator, stack_id
        ) AS number
    FROM grouped
),
shown AS (
    FROM ranked
    WHERE getvariable('top') = 0 OR number <= getvariable('top')
)
SELECT s.trace_id, s.process_id, s.device_id, s.allocator, s.class, s.layer, s.operator,
    s.allocations, s.requested_bytes, s.share_pct, s.largest_bytes, c.code, s.evidence
FROM shown AS s
LEFT JOIN _stack_code AS c USING (trace_id, stack_id)
ORDER BY s.trace_id, s.space, s.number
