/*
title    = "NVTX paths"
question = "Which texts lead from the root to each NVTX range?"
grain    = "NVTX range"
needs    = ["annotation_tree"]
optional = ["annotation_range"]
returns = ["trace_id", "annotation_id", "path"]
[columns]
path = """texts from the root to the range, joined by ' > '; with more than 16, the first 8 and the
    last 8"""
*/
-- Level by level. Texts are long, so only queries that print paths use this relation.
WITH RECURSIVE
node AS (
    SELECT t.trace_id, t.annotation_id, t.parent_id, t.depth, coalesce(r.text, '') AS text
    FROM annotation_tree t JOIN annotation_range r USING (trace_id, annotation_id)
),
-- Programs that never close their ranges nest them thousands deep, so a path keeps its two ends.
tree AS (
    SELECT trace_id, annotation_id, depth, text AS head, []::VARCHAR[] AS tail
    FROM node WHERE parent_id IS NULL
    UNION ALL
    SELECT n.trace_id, n.annotation_id, n.depth,
        CASE WHEN n.depth < 8 THEN t.head || ' > ' || n.text ELSE t.head END,
        CASE WHEN n.depth < 8 THEN t.tail ELSE list_append(t.tail, n.text)[-8:] END
    FROM tree t JOIN node n ON n.trace_id = t.trace_id AND n.parent_id = t.annotation_id
)
SELECT trace_id, annotation_id,
    concat_ws(' > ', head, CASE WHEN depth >= 16 THEN '…' END,
        CASE WHEN len(tail) > 0 THEN array_to_string(tail, ' > ') END) AS path
FROM tree
