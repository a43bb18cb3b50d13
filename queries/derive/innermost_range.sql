/*
title    = "Innermost range of each launch"
question = "Which NVTX range is the innermost around each launch?"
source   = "of the ranges around a launch on its thread, in domains that annotate the model, the one that began last"
grain    = "one launch in a range"
needs    = ["launch", "launch_run"]
optional = ["nvtx_range", "nvtx_role", "nvtx_path"]
[columns.trace_id]
doc = "the trace"
[columns.api_call_id]
doc = "the launch"
[columns.nvtx_range_id]
doc = "innermost range around it"
[columns.range_path]
doc = "that range's path (nvtx_path)"
*/
WITH
library AS (SELECT DISTINCT trace_id, domain FROM nvtx_role WHERE is_library),
-- Of the ranges with the same launches one is the innermost: few are left for each launch.
run AS (
    SELECT r.trace_id, r.process_id, r.thread_id, r.first_position, r.last_position,
        max({'at': n.start_ns, 'range': n.nvtx_range_id}) AS innermost
    FROM launch_run r
    JOIN nvtx_range n USING (trace_id, nvtx_range_id)
    ANTI JOIN library y ON y.trace_id = n.trace_id AND y.domain = n.domain
    WHERE n.text IS NOT NULL
    GROUP BY ALL
),
held AS (
    SELECT trace_id, process_id, thread_id, innermost,
        unnest(generate_series(first_position, last_position)) AS position
    FROM run
),
chosen AS (
    SELECT trace_id, process_id, thread_id, position, max(innermost).range AS nvtx_range_id
    FROM held GROUP BY ALL
)
SELECT c.trace_id, l.api_call_id, c.nvtx_range_id, p.path AS range_path
FROM chosen c
JOIN launch l
    ON  l.trace_id = c.trace_id AND l.process_id IS NOT DISTINCT FROM c.process_id
    AND l.thread_id = c.thread_id AND l.position = c.position
JOIN nvtx_path p ON p.trace_id = c.trace_id AND p.nvtx_range_id = c.nvtx_range_id
