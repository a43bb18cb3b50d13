/*
title    = "Launches inside ranges"
question = "Which NVTX ranges contain each launch?"
source   = """an operation belongs to a range if its launching call is inside it on the same thread
    (nsys stats nvtx_kern_sum)"""
grain    = "launch and enclosing NVTX range of any domain"
needs    = ["launch", "_range_launch_interval"]
returns = ["trace_id", "api_call_id", "annotation_id"]
[columns]
api_call_id = "the launch"
annotation_id = "enclosing range"
*/
WITH
expanded AS (
    SELECT trace_id, annotation_id, host_thread,
        unnest(generate_series(first_position, last_position)) AS position
    FROM _range_launch_interval
)
SELECT e.trace_id, l.api_call_id, e.annotation_id
FROM expanded e
JOIN launch l ON l.host_thread = e.host_thread AND l.position = e.position
