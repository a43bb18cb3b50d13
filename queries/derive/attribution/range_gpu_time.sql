/*
title    = "GPU time of NVTX ranges"
question = "When did the GPU run the work that each range launched, and how long did it take?"
source   = "same projection as nsys stats nvtx_gpu_proj_trace"
grain    = "NVTX range that launched GPU operations"
needs    = ["gpu_op", "op_launch", "_range_launch_interval"]
returns = [
    "trace_id", "annotation_id", "gpu_start_ns", "gpu_ns", "gpu_sum_ns", "launches", "operations",
    "position",
]
[columns]
gpu_start_ns = "start of the first operation launched in the range"
gpu_ns = "end of the last operation − start of the first"
gpu_sum_ns = "sum of the durations of the operations"
launches = "calls in the range that launched operations (distinct correlation ids)"
operations = "operations launched in the range"
position = """order of the rows, from 1: by trace, gpu_start_ns, gpu_ns (largest first) and
    annotation_id"""
*/
WITH
operation AS (
    SELECT l.host_thread, l.position, min(o.start_ns) AS start_ns, max(o.end_ns) AS end_ns,
        sum(o.duration_ns) AS sum_ns, count(*) AS operations
    FROM gpu_op o
    JOIN op_launch l USING (trace_id, op_kind, op_id)
    WHERE l.host_thread IS NOT NULL
    GROUP BY ALL
),
-- Ranges with the same launches have the same sums, so sums are computed once per set of launches.
run AS (
    SELECT DISTINCT host_thread, first_position, last_position FROM _range_launch_interval
),
contained AS (
    SELECT *, unnest(generate_series(first_position, last_position)) AS position FROM run
),
summed AS (
    SELECT h.host_thread, h.first_position, h.last_position,
        min(o.start_ns) AS gpu_start_ns, max(o.end_ns) - min(o.start_ns) AS gpu_ns,
        sum(o.sum_ns)::BIGINT AS gpu_sum_ns, count(*) AS launches,
        sum(o.operations)::BIGINT AS operations
    FROM contained h
    JOIN operation o ON o.host_thread = h.host_thread AND o.position = h.position
    GROUP BY ALL
)
SELECT *, row_number() OVER () AS position
FROM (
    SELECT r.trace_id, r.annotation_id, s.gpu_start_ns, s.gpu_ns, s.gpu_sum_ns, s.launches,
        s.operations
    FROM _range_launch_interval r
    JOIN summed s
        ON  s.host_thread = r.host_thread AND s.first_position = r.first_position
        AND s.last_position = r.last_position
    ORDER BY r.trace_id, s.gpu_start_ns, s.gpu_ns DESC, r.annotation_id
)
