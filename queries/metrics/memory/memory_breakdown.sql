/*
title    = "Memory by class"
question = "What fills the memory: weights, gradients, feature maps, workspace?"
source   = """TBD (Zhu et al., IISWC 2018) for the five groups; a class is stated by the framework
    or inferred from call stacks and lifetimes (column evidence)"""
grain    = "class, per memory space"
needs    = ["allocation"]
optional = ["peak_memory", "memory_device"]
reduce   = "concat"
returns = [
    "trace_id", "process_id", "device_id", "allocator", "memory_kind", "class", "group_name",
    "requested_bytes", "allocated_bytes", "recomputed_bytes", "allocations", "share_pct",
    "evidence", "why_not",
]
[columns]
memory_kind = "kind of memory, as recorded by a profiler of CUDA; NULL otherwise"
class = "class of the bytes"
requested_bytes = "bytes as requested by the program"
allocated_bytes = "bytes after rounding by the allocator; NULL when unknown"
recomputed_bytes = "requested bytes of feature maps made again during backward (checkpointing)"
allocations = "number of allocations"
share_pct = """part of the denominator; NULL if the denominator leaves the class out, or without a
    reading of the device"""
evidence = "collector, stack, none; several are separated by commas"
why_not = "reasons why the table could mislead; NULL if there are none"
[params.at]
doc = """peak: live at the peak; end: live at the end; step: allocated or live during one iteration,
    each allocation once"""
choices = ["peak", "end", "step"]
default = "peak"
[params.iteration]
doc     = """iteration of `at=step`, from 0; -1 is the last one; all events where no iterations
    are known"""
default = -1
[params.denominator]
doc = """what the shares are parts of: tensors (weights, weight gradients, feature maps, workspace),
    allocated (all classes) or device (bytes in use on the device)"""
choices = ["allocated", "tensors", "device"]
default = "allocated"
[params.sizes]
doc     = "sizes that the shares are computed from"
choices = ["requested", "allocated"]
default = "requested"
[params.allow_unknown]
doc     = "true answers although more than half of the bytes have no known class"
default = false
[refuse]
column = "why_not"
unless = "allow_unknown"
[plot]
kind = "barh"
x = ["class", "process_id", "device_id", "allocator", "memory_kind"]
y = [["requested_bytes"]]
*/
WITH
setting AS (
    SELECT getvariable('at') AS moment,
        getvariable('iteration') AS iteration,
        getvariable('denominator') AS denominator,
        getvariable('sizes') AS sizes
),
step AS (
    -- Events of the chosen iteration; without iterations, of the whole recording.
    SELECT a.trace_id, a.space, min(a.born_sequence) AS first_sequence,
        max(a.born_sequence) AS last_sequence
    FROM allocation AS a
    JOIN (
        SELECT trace_id, max(iteration) AS last_iteration FROM allocation GROUP BY trace_id
    ) AS m USING (trace_id)
    CROSS JOIN setting AS s
    WHERE m.last_iteration IS NULL
        OR a.iteration = if(s.iteration < 0, m.last_iteration, s.iteration)
    GROUP BY a.trace_id, a.space
),
chosen AS (
    SELECT a.*
    FROM allocation AS a
    CROSS JOIN setting AS s
    LEFT JOIN peak_memory AS p USING (space)
    LEFT JOIN step AS i USING (space)
    WHERE CASE s.moment
        WHEN 'end' THEN a.died_sequence IS NULL
        WHEN 'step' THEN coalesce(a.born_sequence, 0) <= i.last_sequence
            AND coalesce(a.died_sequence >= i.first_sequence, true)
        ELSE (a.born_sequence IS NULL OR a.born_sequence <= p.sequence)
            AND (a.died_sequence IS NULL OR a.died_sequence > coalesce(p.sequence, -1))
    END
),
device AS (
    SELECT trace_id, device_id, max(used_bytes) AS used_bytes
    FROM memory_device GROUP BY trace_id, device_id
),
summed AS (
    SELECT trace_id, process_id, device_id, allocator, memory_kind, class,
        group_name,
        sum(requested_bytes)::BIGINT AS requested_bytes,
        sum(allocated_bytes)::BIGINT AS allocated_bytes,
        coalesce(
            sum(requested_bytes) FILTER (recomputed AND class = 'feature_map'), 0
        )::BIGINT AS recomputed_bytes,
        count(*) AS allocations,
        string_agg(DISTINCT evidence, ',' ORDER BY evidence) AS evidence
    FROM chosen
    GROUP BY ALL
),
shared AS (
    SELECT m.*, d.used_bytes,
        if(s.sizes = 'allocated', m.allocated_bytes, m.requested_bytes) AS counted_bytes,
        CASE s.denominator
            WHEN 'tensors' THEN m.group_name NOT IN ('dynamic', 'unknown')
            ELSE true
        END AS is_part,
        s.denominator
    FROM summed AS m
    CROSS JOIN setting AS s
    LEFT JOIN device AS d
        ON d.trace_id = m.trace_id AND d.device_id = m.device_id
)
SELECT trace_id, process_id, device_id, allocator, memory_kind, class, group_name,
    requested_bytes, allocated_bytes, recomputed_bytes, allocations,
    100 * if(is_part, counted_bytes, NULL) / nullif(
        if(
            denominator = 'device', used_bytes, sum(if(is_part, counted_bytes, 0)) OVER space
        ), 0
    ) AS share_pct,
    evidence,
    if(
        2 * sum(if(class = 'unknown', requested_bytes, 0)) OVER space
        > sum(requested_bytes) OVER space,
        [format(
            'the class of {:.0f} % of the bytes is unknown; record the setup too, or collect with '
            || '`tbd-trace collect --memory`',
            100 * sum(if(class = 'unknown', requested_bytes, 0)) OVER space
            / sum(requested_bytes) OVER space
        )],
        NULL
    ) AS why_not
FROM shared
WINDOW space AS (PARTITION BY trace_id, process_id, device_id, allocator, memory_kind)
ORDER BY trace_id, process_id, device_id, allocator, memory_kind, requested_bytes DESC, class
