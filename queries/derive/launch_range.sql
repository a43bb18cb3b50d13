/*
title    = "Launches inside ranges"
question = "Which NVTX ranges hold each launch?"
source   = "an operation belongs to a range if its launching call lies inside it on the same thread (nsys stats nvtx_kern_sum)"
grain    = "one launch in one NVTX range around it, whatever the domain"
needs    = ["launch", "launch_thread", "launch_run"]
[columns.trace_id]
doc = "the trace"
[columns.api_call_id]
doc = "the launch"
[columns.nvtx_range_id]
doc = "a range that holds it"
*/
WITH
expanded AS (
    SELECT trace_id, nvtx_range_id, host_thread,
        unnest(generate_series(first_position, last_position)) AS position
    FROM launch_run
),
numbered AS (
    SELECT h.host_thread, l.position, l.api_call_id
    FROM launch l
    JOIN launch_thread h
        ON  h.trace_id = l.trace_id AND h.process_id IS NOT DISTINCT FROM l.process_id
        AND h.thread_id = l.thread_id
)
SELECT e.trace_id, n.api_call_id, e.nvtx_range_id
FROM expanded e
JOIN numbered n ON n.host_thread = e.host_thread AND n.position = e.position
