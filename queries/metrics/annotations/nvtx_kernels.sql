/*
title    = "Kernels by NVTX range"
question = "Which kernels does each annotated part of the program launch?"
source   = "same sums as nsys stats nvtx_kern_sum: a kernel counts in every range around its launch"
grain    = "NVTX range and kernel name, per thread of a trace"
needs    = ["kernel", "annotation", "nvtx_range"]
optional = ["range_kernel", "annotation_range", "annotation_tree", "process", "thread"]
reduce   = "concat"
returns = [
    "trace_id", "range_path", "style", "pid", "tid", "range_instances", "kernel_name", "instances",
    "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "stddev_ns",
]
[columns]
range_path = """domain and texts from the root to the range (domain: a > b), or domain:text with
    by=range; NULL for kernels outside all ranges"""
style = "push_pop or start_end"
pid = "process of the launch"
tid = "thread of the launch"
*/
-- Paths are long texts, so build only those of the requested rows (first_row to last_row).
WITH RECURSIVE
setting AS (SELECT getvariable('by') = 'path' AS by_path),
shown AS MATERIALIZED (
    FROM range_kernel
    WHERE position >= coalesce(getvariable('first_row'), position)
      AND position <= coalesce(getvariable('last_row'), position)
),
around AS MATERIALIZED (
    SELECT t.trace_id, t.annotation_id, t.parent_id, t.depth
    FROM annotation_tree t
    SEMI JOIN (FROM shown, setting WHERE by_path) s USING (trace_id, annotation_id)
    UNION
    SELECT t.trace_id, t.annotation_id, t.parent_id, t.depth
    FROM annotation_tree t
    SEMI JOIN around a ON a.trace_id = t.trace_id AND a.parent_id = t.annotation_id
),
-- DuckDB overestimates recursive CTEs a thousandfold and would build its hash table from all texts;
-- list and unnest replace that estimate.
worded AS (
    SELECT r.trace_id, r.annotation_id, r.text
    FROM annotation_range r
    SEMI JOIN (
        SELECT unnest(
            list({'trace_id': trace_id, 'annotation_id': annotation_id}), recursive := true)
        FROM around
    ) USING (trace_id, annotation_id)
),
node AS MATERIALIZED (
    SELECT a.*, coalesce(r.text, '') AS text
    FROM around a JOIN worded r USING (trace_id, annotation_id)
),
-- Same format as annotation_path: the first 8 texts, the last 8, and … in between.
tree AS (
    SELECT trace_id, annotation_id, depth, text AS head, []::VARCHAR[] AS tail
    FROM node WHERE parent_id IS NULL
    UNION ALL
    SELECT n.trace_id, n.annotation_id, n.depth,
        CASE WHEN n.depth < 8 THEN t.head || ' > ' || n.text ELSE t.head END,
        CASE WHEN n.depth < 8 THEN t.tail ELSE list_append(t.tail, n.text)[-8:] END
    FROM tree t JOIN node n ON n.trace_id = t.trace_id AND n.parent_id = t.annotation_id
),
path AS (
    SELECT trace_id, annotation_id,
        concat_ws(' > ', head, CASE WHEN depth >= 16 THEN '…' END,
            CASE WHEN len(tail) > 0 THEN array_to_string(tail, ' > ') END) AS text
    FROM tree
)
SELECT s.trace_id,
    CASE
        WHEN r.annotation_id IS NULL THEN NULL
        WHEN by_path THEN coalesce(r.domain || ': ', '') || t.text
        ELSE coalesce(r.domain || ':', '') || coalesce(r.text, '')
    END AS range_path,
    r.kind AS style, p.pid, th.tid, s.range_instances, s.kernel_name,
    s.instances, s.total_ns, s.mean_ns, s.median_ns, s.min_ns, s.max_ns, s.stddev_ns
FROM shown s
CROSS JOIN setting
LEFT JOIN annotation_range r ON r.trace_id = s.trace_id AND r.annotation_id = s.annotation_id
LEFT JOIN path t ON t.trace_id = s.trace_id AND t.annotation_id = s.annotation_id
LEFT JOIN process p ON p.trace_id = s.trace_id AND p.process_id = s.process_id
LEFT JOIN (
    SELECT trace_id, process_id, thread_id, any_value(tid) AS tid FROM thread GROUP BY ALL
) th
    ON  th.trace_id = s.trace_id AND th.process_id = s.process_id AND th.thread_id = s.thread_id
ORDER BY s.position
