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
[columns.path]
doc = "texts from the root to the range itself, joined by ' > '; of more than 16 the first 8 and the last 8"
[columns.path_id]
doc = "the same for ranges with the same texts from the root on"
*/
WITH RECURSIVE
-- Order in which a thread's stack saw the ranges: an outer range before the inner one that begins
-- with it; a range without length after all that began before it or with it.
ordered AS (
    SELECT *, end_ns = start_ns AS is_empty,
        row_number() OVER stack AS position
    FROM nvtx_range
    WHERE kind = 'push_pop'
    WINDOW stack AS (
        PARTITION BY trace_id, process_id, thread_id, domain_id
        ORDER BY start_ns, end_ns = start_ns, end_ns DESC, nvtx_range_id)
),
-- At one instant: first the ends of ranges that began earlier, then the beginnings, then the ends
-- of ranges without length.
event AS (
    SELECT trace_id, process_id, thread_id, domain_id, nvtx_range_id, position,
        start_ns AS at_ns, CASE WHEN is_empty THEN 2 ELSE 1 END AS turn, position AS tie, 1 AS step
    FROM ordered
    UNION ALL
    SELECT trace_id, process_id, thread_id, domain_id, nvtx_range_id, position,
        end_ns, CASE WHEN is_empty THEN 2 ELSE 0 END, position, -1
    FROM ordered
),
counted AS (
    SELECT *,
        sum(step) OVER (
            PARTITION BY trace_id, process_id, thread_id, domain_id
            ORDER BY at_ns, turn, tie, step DESC
            ROWS UNBOUNDED PRECEDING) - 1 AS depth
    FROM event
),
leveled AS (
    SELECT trace_id, process_id, thread_id, domain_id, nvtx_range_id, position, depth
    FROM counted WHERE step = 1
),
-- The parent is the last range one level up that began before.
parented AS (
    SELECT child.trace_id, child.nvtx_range_id, child.depth, parent.nvtx_range_id AS parent_id
    FROM leveled child
    ASOF LEFT JOIN leveled parent
        ON  child.trace_id = parent.trace_id
        AND child.process_id IS NOT DISTINCT FROM parent.process_id
        AND child.thread_id IS NOT DISTINCT FROM parent.thread_id
        AND child.domain_id = parent.domain_id
        AND child.depth = parent.depth + 1
        AND child.position > parent.position
),
node AS (
    SELECT r.trace_id, r.nvtx_range_id, p.parent_id, coalesce(p.depth, 0) AS depth,
        coalesce(r.text, '') AS text
    FROM nvtx_range r LEFT JOIN parented p USING (trace_id, nvtx_range_id)
),
-- Programs that forget to close ranges nest them a thousand deep: a path keeps its two ends.
tree AS (
    SELECT trace_id, nvtx_range_id, parent_id, depth, text AS head, []::VARCHAR[] AS tail,
        hash(text) AS path_id
    FROM node WHERE parent_id IS NULL
    UNION ALL
    SELECT n.trace_id, n.nvtx_range_id, n.parent_id, n.depth,
        CASE WHEN n.depth < 8 THEN t.head || ' > ' || n.text ELSE t.head END,
        CASE WHEN n.depth < 8 THEN t.tail ELSE list_append(t.tail, n.text)[-8:] END,
        hash(t.path_id, n.text)
    FROM tree t JOIN node n ON n.trace_id = t.trace_id AND n.parent_id = t.nvtx_range_id
)
SELECT trace_id, nvtx_range_id, parent_id, depth::INTEGER AS depth,
    concat_ws(' > ', head, CASE WHEN depth >= 16 THEN '…' END,
        CASE WHEN len(tail) > 0 THEN array_to_string(tail, ' > ') END) AS path,
    path_id
FROM tree
