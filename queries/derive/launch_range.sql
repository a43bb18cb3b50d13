/*
title    = "Launches inside ranges"
question = "Which NVTX ranges hold each launch?"
source   = "an operation belongs to a range if its launching call lies inside it on the same thread (nsys stats nvtx_kern_sum)"
grain    = "one launch in one NVTX range around it, whatever the domain"
needs    = ["launch"]
optional = ["nvtx_range"]
[columns.trace_id]
doc = "the trace"
[columns.api_call_id]
doc = "the launch"
[columns.nvtx_range_id]
doc = "a range that holds it"
*/
-- The calls of a thread follow each other, so a range holds a run of them: from the first that
-- begins at or after its start to the last that ends by its end.
WITH
first_at AS (
    SELECT trace_id, process_id, thread_id, start_ns, min(position) AS position
    FROM launch GROUP BY ALL
),
last_by AS (
    SELECT trace_id, process_id, thread_id, end_ns, max(position) AS position
    FROM launch GROUP BY ALL
),
same_thread AS (
    SELECT * FROM nvtx_range
    WHERE thread_id IS NOT NULL AND (end_thread_id IS NULL OR end_thread_id = thread_id)
),
lower_end AS (
    SELECT r.trace_id, r.nvtx_range_id, r.process_id, r.thread_id, r.end_ns, f.position AS first_position
    FROM same_thread r
    ASOF JOIN first_at f
        ON  r.trace_id = f.trace_id
        AND r.process_id IS NOT DISTINCT FROM f.process_id
        AND r.thread_id = f.thread_id
        AND r.start_ns <= f.start_ns
),
run AS (
    SELECT r.trace_id, r.nvtx_range_id, r.process_id, r.thread_id, r.first_position,
        l.position AS last_position
    FROM lower_end r
    ASOF JOIN last_by l
        ON  r.trace_id = l.trace_id
        AND r.process_id IS NOT DISTINCT FROM l.process_id
        AND r.thread_id = l.thread_id
        AND r.end_ns >= l.end_ns
    WHERE l.position >= r.first_position
),
expanded AS (
    SELECT trace_id, nvtx_range_id, process_id, thread_id,
        unnest(generate_series(first_position, last_position)) AS position
    FROM run
)
SELECT e.trace_id, l.api_call_id, e.nvtx_range_id
FROM expanded e
JOIN launch l
    ON  l.trace_id = e.trace_id
    AND l.process_id IS NOT DISTINCT FROM e.process_id
    AND l.thread_id = e.thread_id
    AND l.position = e.position
