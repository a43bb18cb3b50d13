/*
title    = "Numbers of NVTX texts"
question = "Which NVTX ranges have the same text, and which the same texts around them, too?"
grain    = "one NVTX range"
needs    = ["nvtx_tree"]
optional = ["nvtx_range", "trace"]
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
doc = "the range"
[columns.text_id]
doc = "the same for ranges with the same kind, domain and text"
[columns.path_id]
doc = "the same for ranges with the same kind, domain and texts from the root on (nvtx_path)"
*/
-- Level by level, by hashes: texts are long, and traces numbered, so that numbers alone are joined.
WITH RECURSIVE
numbered AS MATERIALIZED (SELECT trace_id, row_number() OVER ()::INTEGER AS trace FROM trace),
node AS MATERIALIZED (
    SELECT d.trace, t.nvtx_range_id, t.parent_id, hash(r.kind, r.domain, coalesce(r.text, '')) AS text_id
    FROM nvtx_tree t
    JOIN nvtx_range r USING (trace_id, nvtx_range_id)
    JOIN numbered d USING (trace_id)
),
tree AS (
    SELECT trace, nvtx_range_id, text_id, text_id AS path_id FROM node WHERE parent_id IS NULL
    UNION ALL
    SELECT n.trace, n.nvtx_range_id, n.text_id, hash(t.path_id, n.text_id)
    FROM tree t JOIN node n ON n.trace = t.trace AND n.parent_id = t.nvtx_range_id
)
SELECT d.trace_id, t.nvtx_range_id, t.text_id, t.path_id
FROM tree t JOIN numbered d USING (trace)
