/*
title    = "NVTX tree"
question = "How do the NVTX ranges of each thread nest, and which have equal texts?"
source   = "push/pop ranges of one thread and one domain form a stack (NVTX documentation)"
grain    = "NVTX range"
optional = ["annotation_range"]
returns = ["trace_id", "annotation_id", "parent_id", "depth", "text_id", "path_id"]
[columns]
annotation_id = "the range"
parent_id = """innermost push/pop range of the same thread and domain that was open at its start;
    NULL for a root and for start/end ranges, which do not nest"""
depth = "number of enclosing ranges: 0 for a root"
text_id = "number shared by ranges with equal kind, domain and text"
path_id = """number shared by ranges with equal kind, domain and texts from the root
    (annotation_path)"""
*/
-- Starts and ends are sorted once, then counted by windows without PARTITION BY, which DuckDB can
-- spill to disk, unlike windows over whole threads. Each range opens and closes, so sums are 0 at
-- the start of each stack. Texts are long, so their hashes are used.
WITH
hashed AS NOT MATERIALIZED (
    SELECT *, hash(kind, domain, coalesce(text, '')) AS text_hash FROM annotation_range
),
-- Texts that contain sequence numbers collide more often than by chance: dozens in a million. Texts
-- with equal hashes get different numbers.
spelled AS NOT MATERIALIZED (
    SELECT DISTINCT text_hash, kind, domain, coalesce(text, '') AS text FROM hashed
),
homonym AS MATERIALIZED (
    SELECT *,
        hash(text_hash, row_number() OVER (PARTITION BY text_hash ORDER BY kind, domain, text))
            AS text_id
    FROM spelled
    SEMI JOIN (SELECT text_hash FROM spelled GROUP BY ALL HAVING count(*) > 1) USING (text_hash)
),
worded AS NOT MATERIALIZED (
    SELECT r.*, coalesce(n.text_id, r.text_hash) AS text_id
    FROM hashed r
    LEFT JOIN homonym n
        ON  n.text_hash = r.text_hash AND n.text = coalesce(r.text, '') AND n.kind = r.kind
        AND n.domain IS NOT DISTINCT FROM r.domain
),
stack AS MATERIALIZED (
    SELECT *, row_number() OVER ()::INTEGER AS stack_id
    FROM (
        SELECT DISTINCT trace_id, process_id, thread_id, domain_id
        FROM annotation_range WHERE kind = 'push_pop'
    )
),
stacked AS (
    SELECT s.stack_id, r.annotation_id, r.start_ns, r.end_ns, r.text_id
    FROM worded r
    JOIN stack s
        ON  s.trace_id = r.trace_id AND s.process_id IS NOT DISTINCT FROM r.process_id
        AND s.thread_id IS NOT DISTINCT FROM r.thread_id AND s.domain_id = r.domain_id
    WHERE r.kind = 'push_pop'
),
-- Order of events at one time: ends of ranges that started earlier (turn NULL), then starts,
-- longest range first (turn < 0), then both events of each empty range (turn 0).
event AS (
    SELECT stack_id, start_ns AS at_ns, start_ns - end_ns AS turn, annotation_id * 2 AS event_id,
        text_id
    FROM stacked
    UNION ALL
    SELECT stack_id, end_ns, CASE WHEN start_ns = end_ns THEN 0 END, annotation_id * 2 + 1, text_id
    FROM stacked
),
ordered AS (
    SELECT stack_id, event_id // 2 AS annotation_id, event_id % 2 = 0 AS begins,
        CASE WHEN event_id % 2 = 0 THEN 1 ELSE -1 END AS step, text_id
    FROM event
    ORDER BY stack_id, at_ns, turn NULLS FIRST, event_id
),
leveled AS (
    SELECT *, (sum(step) OVER (ROWS UNBOUNDED PRECEDING))::INTEGER - begins::INTEGER AS depth,
        lag(CASE WHEN begins THEN annotation_id END) OVER () AS began_before
    FROM ordered
),
-- Sum over the texts of the open ranges, hashed with their depths; it identifies the path.
pathed AS (
    SELECT *, row_number() OVER () AS position,
        sum(step * (hash(text_id, depth) >> 1)::BIGINT) OVER (ROWS UNBOUNDED PRECEDING) AS path
    FROM leveled
),
-- A range that starts right after another start is its child. After an end, it has the same parent
-- as the previous range of its level.
by_level AS (
    SELECT stack_id, annotation_id, depth, text_id, path, began_before
    FROM pathed WHERE begins
    ORDER BY depth, position
),
parented AS (
    SELECT *, last_value(began_before IGNORE NULLS) OVER (ROWS UNBOUNDED PRECEDING) AS parent_id
    FROM by_level
)
SELECT s.trace_id, p.annotation_id, CASE WHEN p.depth > 0 THEN p.parent_id END AS parent_id,
    p.depth, p.text_id, hash(p.path) AS path_id
FROM parented p
JOIN stack s USING (stack_id)
UNION ALL
SELECT trace_id, annotation_id, NULL, 0, text_id, text_id
FROM worded WHERE kind <> 'push_pop'
