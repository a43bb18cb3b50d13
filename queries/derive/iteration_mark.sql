/*
title    = "Iteration boundaries from NVTX"
question = "Where does each iteration begin and end, by the program's own marks?"
grain    = "one iteration of one process"
needs    = ["nvtx_meaning", "nvtx_role"]
optional = ["nvtx_range", "nvtx_mark", "meaning_run", "trace"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.iteration]
doc = "number of the iteration in its process, from 0 in order of time"
[columns.label]
doc = "text of the range or mark"
[columns.start_ns]
unit = "ns"
doc = "start on the host"
[columns.end_ns]
unit = "ns"
doc = "end on the host; for marks the next mark, or the trace's end"
[columns.thread_id]
doc = "thread that marked it"
[columns.nvtx_range_id]
doc = "the range; NULL for marks"
[columns.method]
doc = "nvtx range or nvtx mark"
*/
WITH
-- tbd_trace.instrument begins an iteration where the optimizer's step ends; the one that was going
-- on when the program ended is none.
last_step AS (
    SELECT trace_id, process_id, max(end_ns) AS end_ns
    FROM nvtx_range WHERE domain = 'tbd_trace' AND text = 'phase:optimizer' GROUP BY ALL
),
candidate AS (
    SELECT r.trace_id, r.process_id, r.thread_id, r.domain_id, r.kind, r.nvtx_range_id, r.text,
        r.start_ns, r.end_ns,
        max(r.end_ns) OVER (
            PARTITION BY r.trace_id, r.process_id, r.thread_id, r.domain_id, r.kind
            ORDER BY r.start_ns, r.end_ns DESC, r.nvtx_range_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end_ns
    FROM nvtx_range r JOIN nvtx_meaning m USING (trace_id, nvtx_range_id)
    LEFT JOIN last_step s
        ON  s.trace_id = r.trace_id AND s.process_id IS NOT DISTINCT FROM r.process_id
        AND r.domain = 'tbd_trace'
    WHERE m.is_iteration AND NOT r.is_open AND (s.end_ns IS NULL OR r.start_ns < s.end_ns)
),
-- An iteration inside another (a micro-batch in a step) is part of it.
outer_only AS (
    SELECT * FROM candidate WHERE earlier_end_ns IS NULL OR start_ns >= earlier_end_ns
),
-- Several threads may mark steps (data loaders do): the one that launches most drives the training.
launches AS (
    SELECT trace_id, nvtx_range_id, last_position - first_position + 1 AS launches FROM meaning_run
),
driver AS (
    SELECT o.trace_id, o.process_id, o.thread_id, o.domain_id, o.kind
    FROM outer_only o LEFT JOIN launches l USING (trace_id, nvtx_range_id)
    GROUP BY o.trace_id, o.process_id, o.thread_id, o.domain_id, o.kind
    QUALIFY row_number() OVER (
        PARTITION BY o.trace_id, o.process_id
        ORDER BY coalesce(sum(l.launches), 0) DESC, count(*) DESC, o.kind, o.thread_id, o.domain_id) = 1
),
ranged AS (
    SELECT o.trace_id, o.process_id, o.thread_id, o.nvtx_range_id, o.text AS label,
        o.start_ns, o.end_ns, 'nvtx range' AS method
    FROM outer_only o
    JOIN driver d
        ON  d.trace_id = o.trace_id AND d.process_id IS NOT DISTINCT FROM o.process_id
        AND d.thread_id IS NOT DISTINCT FROM o.thread_id AND d.domain_id = o.domain_id
        AND d.kind = o.kind
),
marked AS (
    SELECT k.trace_id, k.process_id, k.thread_id, NULL::BIGINT AS nvtx_range_id, k.text AS label,
        k.timestamp_ns AS start_ns,
        coalesce(lead(k.timestamp_ns) OVER (
            PARTITION BY k.trace_id, k.process_id, k.thread_id ORDER BY k.timestamp_ns), t.end_ns) AS end_ns,
        'nvtx mark' AS method,
        count(*) OVER (PARTITION BY k.trace_id, k.process_id, k.thread_id) AS marks
    FROM nvtx_mark k
    JOIN trace t USING (trace_id)
    JOIN nvtx_role m
        ON m.trace_id = k.trace_id AND m.domain IS NOT DISTINCT FROM k.domain AND m.text = k.text
    WHERE m.is_iteration AND NOT m.is_library
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
    label, start_ns, end_ns, thread_id, nvtx_range_id, method
FROM boundary
