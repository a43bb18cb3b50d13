/*
title    = "What holds the memory at the peak"
question = "Which classes of bytes and which lines of code are live at the peak?"
source   = """allocations live at the peak; without a history, blocks of the final snapshot; the
    allocations of a compiler's plan, each with the class of its largest value. Bytes without a
    class have a likely name where call stacks or lifetimes suggest one"""
grain    = "class, layer and line of code, per memory space"
needs    = [["memory_event", "memory_block", "memory_plan"]]
optional = [
    "_peak_allocation", "_allocation_evidence", "_stack_line", "_stack_trait", "peak_memory",
]
returns = [
    "trace_id", "space", "process_id", "device_id", "allocator", "moment", "class", "is_older",
    "is_kept", "likely", "evidence", "layer", "line", "is_data_parallel", "allocations",
    "requested_bytes", "largest_bytes",
]
[columns]
moment = "peak, end without a history, or plan of a compiler"
class = "class of the bytes, as in allocation"
is_older = "true if they were allocated before the recording"
is_kept = "true if they are live at the end, too"
likely = """likely class of bytes without a class: weights, frozen weights, weight gradients,
    feature maps; NULL without a suggestion"""
evidence = """of class or likely class: collector (the framework states it), plan, frames and
    lifetime (inferred), frames, lifetime, none"""
layer = "layer; NULL when unknown"
line = "line of the program with its function; NULL without a call stack"
is_data_parallel = "true if torch.nn.DataParallel runs the code"
allocations = "number of allocations"
largest_bytes = "largest of the allocations"
[advice]
missing = "needs memory events or blocks; {memory}"
*/
WITH
recorded AS (
    SELECT p.trace_id, p.space, p.process_id, p.device_id, p.allocator, 'peak' AS moment, p.class,
        p.born_sequence IS NULL AS is_older, p.died_sequence IS NULL AS is_kept, p.layer,
        p.stack_id, p.phase, p.requested_bytes, p.evidence, e.died_phase
    FROM _peak_allocation AS p
    LEFT JOIN (
        SELECT space, address, died_sequence, died_phase FROM _allocation_evidence
        WHERE born_sequence IS NULL
    ) AS e
        ON p.class = 'unknown' AND p.born_sequence IS NULL AND e.space = p.space
        AND e.address = p.address AND e.died_sequence IS NOT DISTINCT FROM p.died_sequence
),
listed AS (
    SELECT b.trace_id,
        hash(b.trace_id, b.process_id, b.device_id, 'torch', NULL::VARCHAR) AS space,
        b.process_id, b.device_id, 'torch' AS allocator, 'end' AS moment,
        CASE WHEN s.is_communication THEN 'communication' WHEN s.is_workspace THEN 'workspace'
            ELSE 'unknown' END AS class,
        true AS is_older, true AS is_kept, s.layer, b.stack_id, s.phase,
        coalesce(b.requested_bytes, b.bytes) AS requested_bytes,
        if(class = 'unknown', 'none', 'stack') AS evidence, NULL::VARCHAR AS died_phase
    FROM memory_block AS b
    LEFT JOIN _stack_trait AS s USING (trace_id, stack_id)
    WHERE b.state LIKE 'active%'
        AND hash(b.trace_id, b.process_id, b.device_id, 'torch', NULL::VARCHAR)
            NOT IN (SELECT space FROM peak_memory)
),
planned AS (
    SELECT trace_id, hash(trace_id, computation) AS space, 'xla' AS allocator, 'plan' AS moment,
        coalesce(arg_max(class, value_bytes), 'unknown') AS class, false AS is_older,
        true AS is_kept, arg_max(value_name, value_bytes) AS layer,
        any_value(bytes) AS requested_bytes, 'plan' AS evidence
    FROM memory_plan GROUP BY trace_id, computation, allocation
),
live AS (
    SELECT *, bool_or(class IN ('weight', 'weight_gradient')) OVER (PARTITION BY space)
        AS knows_weights
    FROM (FROM recorded UNION ALL BY NAME FROM listed UNION ALL BY NAME FROM planned)
    WHERE requested_bytes IS NOT NULL
),
guessed AS (
    SELECT *,
        CASE
            WHEN class <> 'unknown' THEN NULL
            WHEN phase = 'setup' THEN if(knows_weights AND is_older, 'frozen weights', 'weights')
            -- Without a history, no lifetime is known.
            WHEN NOT is_older OR moment <> 'peak' THEN NULL
            WHEN is_kept THEN if(knows_weights, 'frozen weights', 'weights')
            WHEN died_phase = 'zero_grad' THEN 'weight gradients'
            WHEN died_phase = 'backward' THEN 'feature maps'
        END AS likely,
        CASE
            WHEN evidence IN ('collector', 'plan') THEN evidence
            WHEN evidence = 'stack' THEN 'frames and lifetime'
            WHEN likely IS NULL THEN 'none'
            WHEN phase = 'setup' THEN 'frames'
            ELSE 'lifetime'
        END AS known_by
    FROM live
)
SELECT g.trace_id, g.space, g.process_id, g.device_id, g.allocator, g.moment, g.class, g.is_older,
    g.is_kept, g.likely, g.known_by AS evidence, g.layer, l.line,
    coalesce(l.is_data_parallel, false) AS is_data_parallel,
    count(*) AS allocations, TRY_CAST(sum(g.requested_bytes) AS BIGINT) AS requested_bytes,
    max(g.requested_bytes) AS largest_bytes
FROM guessed AS g
LEFT JOIN _stack_line AS l ON l.trace_id = g.trace_id AND l.stack_id = g.stack_id
GROUP BY ALL
