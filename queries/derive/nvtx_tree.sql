/*
title    = "NVTX tree"
question = "How do the NVTX ranges of each thread nest?"
source   = "push/pop ranges of one thread and one domain form a stack (NVTX documentation)"
grain    = "one NVTX range"
optional = ["nvtx_range"]
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
doc = "the range"
[columns.parent_id]
doc = "innermost push/pop range of the same thread and domain that was open when it began; NULL for a root and for start/end ranges, which do not nest"
[columns.depth]
doc = "number of ranges around it: 0 for a root"
*/
-- Stacks are numbered, so that all ranges are sorted and joined by numbers alone.
WITH
stack AS MATERIALIZED (
    SELECT *, row_number() OVER () AS stack_id
    FROM (
        SELECT DISTINCT trace_id, process_id, thread_id, domain_id
        FROM nvtx_range WHERE kind = 'push_pop'
    )
),
-- Order in which a thread's stack saw the ranges: an outer range before the inner one that begins
-- with it; a range without length after all that began before it or with it.
ordered AS (
    SELECT s.stack_id, r.nvtx_range_id, r.start_ns, r.end_ns, r.end_ns = r.start_ns AS is_empty,
        row_number() OVER in_stack AS position
    FROM nvtx_range r
    JOIN stack s
        ON  s.trace_id = r.trace_id AND s.process_id IS NOT DISTINCT FROM r.process_id
        AND s.thread_id IS NOT DISTINCT FROM r.thread_id AND s.domain_id = r.domain_id
    WHERE r.kind = 'push_pop'
    WINDOW in_stack AS (
        PARTITION BY s.stack_id
        ORDER BY r.start_ns, r.end_ns = r.start_ns, r.end_ns DESC, r.nvtx_range_id)
),
-- At one instant: first the ends of ranges that began earlier, then the beginnings, then the ends
-- of ranges without length.
event AS (
    SELECT stack_id, nvtx_range_id, position, start_ns AS at_ns,
        (CASE WHEN is_empty THEN 2 ELSE 1 END)::TINYINT AS turn, 1::TINYINT AS step
    FROM ordered
    UNION ALL
    SELECT stack_id, nvtx_range_id, position, end_ns,
        (CASE WHEN is_empty THEN 2 ELSE 0 END)::TINYINT, -1::TINYINT
    FROM ordered
),
counted AS (
    SELECT stack_id, nvtx_range_id, position, step,
        sum(step) OVER (
            PARTITION BY stack_id ORDER BY at_ns, turn, position, step DESC
            ROWS UNBOUNDED PRECEDING)::INTEGER - 1 AS depth
    FROM event
),
leveled AS (
    SELECT stack_id, nvtx_range_id, position, depth FROM counted WHERE step = 1
)
-- The parent is the last range one level up that began before.
SELECT s.trace_id, child.nvtx_range_id, parent.nvtx_range_id AS parent_id, child.depth
FROM leveled child
JOIN stack s USING (stack_id)
ASOF LEFT JOIN leveled parent
    ON  child.stack_id = parent.stack_id
    AND child.depth = parent.depth + 1
    AND child.position > parent.position
UNION ALL
SELECT trace_id, nvtx_range_id, NULL, 0 FROM nvtx_range WHERE kind <> 'push_pop'
