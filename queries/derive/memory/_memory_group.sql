/*
title    = "Live bytes of groups of classes after each event"
question = "How many of the live bytes would changes of the program shorten?"
source   = """running sums over the lifetimes of allocations; gradients are stale from the end of
    the optimizer step after their backward pass on"""
grain    = "event of a memory space, and its state before the recording"
needs    = ["allocation", "memory_running", "memory_space"]
optional = ["_memory_phase"]
returns = [
    "trace_id", "space", "sequence", "live_bytes", "feature_bytes", "state_bytes",
    "large_state_bytes", "temporary_bytes", "stale_bytes", "growing_bytes", "most_growing_bytes",
]
[columns]
sequence = "event; -1 before the first one"
live_bytes = "all live bytes, as requested"
feature_bytes = "those of feature maps that are not made again in backward"
state_bytes = "those of optimizer state"
large_state_bytes = "those of optimizer state in tensors of at least 16 KiB"
temporary_bytes = "those of temporary tensors of the optimizer"
stale_bytes = "those of gradients that the optimizer has used already"
growing_bytes = "feature maps, their gradients, temporaries and inputs: they grow with the batch"
most_growing_bytes = "the same, and bytes without a class that were allocated in the recording"
*/
WITH
optimizer AS (
    SELECT space, first_sequence, end_sequence FROM _memory_phase WHERE phase = 'optimizer'
),
part AS (
    SELECT a.space, coalesce(a.born_sequence, -1) AS born, a.died_sequence AS died,
        a.requested_bytes AS bytes, a.class,
        if(a.class = 'weight_gradient', o.end_sequence, NULL) AS stale,
        a.class = 'feature_map' AND NOT a.recomputed AS is_feature,
        a.class IN ('feature_map', 'activation_gradient', 'temporary', 'input') AS grows,
        grows OR a.class = 'unknown' AND a.born_sequence IS NOT NULL
            AND a.phase IS DISTINCT FROM 'setup' AS may_grow
    FROM allocation AS a
    ASOF LEFT JOIN optimizer AS o
        ON o.space = a.space AND coalesce(a.born_sequence, -1) <= o.first_sequence
    WHERE a.class NOT IN ('weight', 'buffer', 'workspace', 'communication')
),
signed AS (
    SELECT space, born AS sequence, bytes, class, is_feature, grows, may_grow, false AS is_stale
    FROM part
    UNION ALL
    SELECT space, died, -bytes, class, is_feature, grows, may_grow, false
    FROM part WHERE died IS NOT NULL
    UNION ALL
    SELECT space, stale, bytes, 'stale', false, false, false, true
    FROM part WHERE coalesce(died > stale, stale IS NOT NULL)
    UNION ALL
    SELECT space, died, -bytes, 'stale', false, false, false, true
    FROM part WHERE died > stale
),
change AS (
    SELECT space, sequence,
        sum(bytes) FILTER (is_feature) AS feature_bytes,
        sum(bytes) FILTER (class = 'optimizer_state') AS state_bytes,
        sum(bytes) FILTER (class = 'optimizer_state' AND abs(bytes) >= 16384)
            AS large_state_bytes,
        sum(bytes) FILTER (class = 'optimizer_temporary') AS temporary_bytes,
        sum(bytes) FILTER (is_stale) AS stale_bytes,
        sum(bytes) FILTER (grows) AS growing_bytes,
        sum(bytes) FILTER (may_grow) AS most_growing_bytes
    FROM signed GROUP BY space, sequence
),
live AS (
    SELECT trace_id, space, sequence, requested_bytes AS bytes FROM memory_running
    UNION ALL
    SELECT trace_id, space, -1, start_requested_bytes FROM memory_space
    WHERE space IN (SELECT space FROM memory_running)
)
SELECT l.trace_id, l.space, l.sequence, l.bytes AS live_bytes,
    TRY_CAST(coalesce(sum(c.feature_bytes) OVER so_far, 0) AS BIGINT) AS feature_bytes,
    TRY_CAST(coalesce(sum(c.state_bytes) OVER so_far, 0) AS BIGINT) AS state_bytes,
    TRY_CAST(coalesce(sum(c.large_state_bytes) OVER so_far, 0) AS BIGINT) AS large_state_bytes,
    TRY_CAST(coalesce(sum(c.temporary_bytes) OVER so_far, 0) AS BIGINT) AS temporary_bytes,
    TRY_CAST(coalesce(sum(c.stale_bytes) OVER so_far, 0) AS BIGINT) AS stale_bytes,
    TRY_CAST(coalesce(sum(c.growing_bytes) OVER so_far, 0) AS BIGINT) AS growing_bytes,
    TRY_CAST(coalesce(sum(c.most_growing_bytes) OVER so_far, 0) AS BIGINT) AS most_growing_bytes
FROM live AS l
LEFT JOIN change AS c ON c.space = l.space AND c.sequence = l.sequence
WINDOW so_far AS (PARTITION BY l.space ORDER BY l.sequence ROWS UNBOUNDED PRECEDING)
