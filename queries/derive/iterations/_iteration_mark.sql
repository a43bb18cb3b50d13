/*
title    = "Iteration boundaries from NVTX"
question = "Where does each iteration start and end, by NVTX marks of the program?"
grain    = "iteration of a process"
needs    = ["annotation_semantics", "_annotation_role"]
optional = ["annotation", "annotation_range", "_annotation_launch_interval", "trace"]
returns = [
    "trace_id", "process_id", "iteration", "label", "start_ns", "end_ns", "thread_id",
    "annotation_id", "method",
]
[columns]
iteration = "number of the iteration in its process, from 0 in order of time"
label = """text of the range or mark; for an optimizer step with several ranges, text of the first
    and number of others"""
start_ns = "start on the host"
end_ns = "end on the host; for marks, the next mark or the end of the trace"
thread_id = "thread that marked the iteration"
annotation_id = "the range; NULL for marks and for several ranges"
method = "nvtx range or nvtx mark"
*/
-- Nested and repeated ranges:
-- - A batch or micro-batch inside a step is part of it, and so is a step inside another.
-- - If ranges called iteration contain on average two steps or more, they are epochs or the like,
-- and
--   the steps are the iterations.
-- - If no range encloses the micro-batches, the micro-batches up to a phase of the optimizer form
-- one
--   iteration. This needs at least two iterations, most (80 %) with the same number of
-- micro-batches,
--   more than one.
-- - Start/end ranges may overlap: ranges with one name are separate iterations, even if nested.
WITH
-- tbd_trace.instrument starts an iteration at the end of the optimizer step; the iteration
-- interrupted by the end of the program does not count.
last_step AS (
    SELECT trace_id, process_id, max(end_ns) AS end_ns
    FROM annotation_range WHERE domain = 'tbd_trace' AND text = 'phase:optimizer' GROUP BY ALL
),
-- Start/end ranges of one program may start on any thread.
named AS (
    SELECT r.trace_id, r.process_id, r.thread_id, r.domain_id, r.kind, r.annotation_id, r.text,
        r.start_ns, r.end_ns, CASE WHEN r.kind = 'push_pop' THEN r.thread_id END AS stack_thread,
        regexp_matches(r.text, '(?i)iter(ation)?[^a-z]*$') AS is_called_iteration,
        regexp_matches(r.text, '(?i)step[^a-z]*$') AS is_called_step
    FROM annotation_range r JOIN annotation_semantics m USING (trace_id, annotation_id)
    LEFT JOIN last_step s
        ON  s.trace_id = r.trace_id AND s.process_id IS NOT DISTINCT FROM r.process_id
        AND r.domain = 'tbd_trace'
    WHERE m.is_iteration AND NOT r.is_open AND (s.end_ns IS NULL OR r.start_ns < s.end_ns)
),
holding_steps AS (
    SELECT o.trace_id, o.process_id, o.stack_thread, o.domain_id, o.kind
    FROM (FROM named WHERE is_called_iteration) o
    JOIN (FROM named WHERE is_called_step) i
        ON  i.trace_id = o.trace_id AND i.process_id IS NOT DISTINCT FROM o.process_id
        AND i.stack_thread IS NOT DISTINCT FROM o.stack_thread AND i.domain_id = o.domain_id
        AND i.kind = o.kind AND i.start_ns >= o.start_ns AND i.end_ns <= o.end_ns
    GROUP BY ALL
    HAVING count(*) >= 2 * count(DISTINCT o.annotation_id)
),
candidate AS (
    SELECT n.*,
        max(n.end_ns) OVER earlier AS earlier_end_ns,
        arg_max(regexp_replace(n.text, '\d+', '#', 'g'), n.end_ns) OVER earlier
            = regexp_replace(n.text, '\d+', '#', 'g') AS is_alike
    FROM named n
    LEFT JOIN holding_steps h
        ON  h.trace_id = n.trace_id AND h.process_id IS NOT DISTINCT FROM n.process_id
        AND h.stack_thread IS NOT DISTINCT FROM n.stack_thread AND h.domain_id = n.domain_id
        AND h.kind = n.kind
    WHERE h.trace_id IS NULL OR NOT n.is_called_iteration
    WINDOW earlier AS (
        PARTITION BY n.trace_id, n.process_id, n.stack_thread, n.domain_id, n.kind
        ORDER BY n.start_ns, n.end_ns DESC, n.annotation_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
outer_only AS (
    SELECT * FROM candidate
    WHERE earlier_end_ns IS NULL OR start_ns >= earlier_end_ns
       OR (kind = 'start_end' AND (end_ns > earlier_end_ns OR is_alike))
),
-- Several threads may mark steps (data loaders do); the one with the most launches drives the
-- training.
launches AS (
    SELECT trace_id, annotation_id, last_position - first_position + 1 AS launches
    FROM _annotation_launch_interval
),
driver AS (
    SELECT o.trace_id, o.process_id, o.stack_thread, o.domain_id, o.kind
    FROM outer_only o LEFT JOIN launches l USING (trace_id, annotation_id)
    GROUP BY o.trace_id, o.process_id, o.stack_thread, o.domain_id, o.kind
    QUALIFY row_number() OVER (
        PARTITION BY o.trace_id, o.process_id
        ORDER BY coalesce(sum(l.launches), 0) DESC, count(*) DESC, o.kind, o.stack_thread,
            o.domain_id) = 1
),
driving AS (
    SELECT o.*
    FROM outer_only o
    JOIN driver d
        ON  d.trace_id = o.trace_id AND d.process_id IS NOT DISTINCT FROM o.process_id
        AND d.stack_thread IS NOT DISTINCT FROM o.stack_thread AND d.domain_id = o.domain_id
        AND d.kind = o.kind
),
-- With gradient accumulation, the optimizer runs after every n-th range. Zeroing gradients is not a
-- step.
stepped AS (
    SELECT d.trace_id, d.annotation_id, max(o.end_ns) AS optimizer_end_ns
    FROM (
        SELECT m.trace_id, m.process_id, m.start_ns, m.end_ns
        FROM annotation_semantics m JOIN annotation_range r USING (trace_id, annotation_id)
        WHERE m.phase = 'optimizer' AND NOT regexp_matches(r.text, '(?i)zero')
    ) o
    ASOF JOIN driving d
        ON  d.trace_id = o.trace_id AND d.process_id IS NOT DISTINCT FROM o.process_id
        AND o.start_ns >= d.start_ns
    GROUP BY ALL
),
accumulating AS (
    SELECT d.*, s.optimizer_end_ns,
        -- Number of the optimizer step that the range belongs to.
        count(s.optimizer_end_ns) OVER (
            PARTITION BY d.trace_id, d.process_id ORDER BY d.start_ns, d.end_ns, d.annotation_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS step
    FROM driving d LEFT JOIN stepped s USING (trace_id, annotation_id)
),
optimizer_step AS (
    SELECT trace_id, process_id, step, count(*) AS ranges,
        arg_min(thread_id, start_ns) AS thread_id,
        arg_min(text, start_ns) || ' + ' || (count(*) - 1) AS label, min(start_ns) AS start_ns,
        max(greatest(end_ns, optimizer_end_ns)) AS end_ns
    FROM accumulating
    GROUP BY trace_id, process_id, step
    HAVING count(optimizer_end_ns) > 0
),
accumulated AS (
    SELECT trace_id, process_id
    FROM (
        SELECT *, mode(ranges) OVER (PARTITION BY trace_id, process_id) AS usual FROM optimizer_step
    )
    GROUP BY trace_id, process_id
    HAVING count(*) >= 2 AND min(usual) > 1 AND count(*) FILTER (ranges = usual) >= 0.8 * count(*)
),
ranged AS (
    SELECT d.trace_id, d.process_id, d.thread_id, d.annotation_id, d.text AS label, d.start_ns,
        d.end_ns,
        'nvtx range' AS method
    FROM driving d
    WHERE NOT EXISTS (
        SELECT 1 FROM accumulated a
        WHERE a.trace_id = d.trace_id AND a.process_id IS NOT DISTINCT FROM d.process_id)
    UNION ALL
    SELECT o.trace_id, o.process_id, o.thread_id, NULL, o.label, o.start_ns, o.end_ns, 'nvtx range'
    FROM optimizer_step o
    WHERE EXISTS (
        SELECT 1 FROM accumulated a
        WHERE a.trace_id = o.trace_id AND a.process_id IS NOT DISTINCT FROM o.process_id)
),
marked AS (
    SELECT k.trace_id, k.process_id, k.thread_id, NULL::BIGINT AS annotation_id, k.text AS label,
        k.start_ns,
        coalesce(lead(k.start_ns) OVER (
            PARTITION BY k.trace_id, k.process_id, k.thread_id ORDER BY k.start_ns), t.end_ns)
            AS end_ns,
        'nvtx mark' AS method,
        count(*) OVER (PARTITION BY k.trace_id, k.process_id, k.thread_id) AS marks
    FROM annotation k
    JOIN trace t USING (trace_id)
    JOIN _annotation_role m
        ON m.trace_id = k.trace_id AND m.domain IS NOT DISTINCT FROM k.domain AND m.text = k.text
    WHERE k.kind = 'mark' AND m.is_iteration AND NOT m.is_library
      AND NOT EXISTS (
          SELECT 1 FROM ranged r
          WHERE r.trace_id = k.trace_id AND r.process_id IS NOT DISTINCT FROM k.process_id)
),
boundary AS (
    SELECT * FROM ranged
    UNION ALL
    SELECT * EXCLUDE (marks) FROM marked WHERE marks >= 2
    QUALIFY dense_rank() OVER (
        PARTITION BY trace_id, process_id ORDER BY marks DESC, thread_id) = 1
)
SELECT trace_id, process_id,
    row_number() OVER (
        PARTITION BY trace_id, process_id ORDER BY start_ns, end_ns) - 1 AS iteration,
    label, start_ns, end_ns, thread_id, annotation_id, method
FROM boundary
