/*
title    = "NVTX ranges projected onto the GPU"
question = "When did the GPU run the work that each range launched?"
source   = "same projection as nsys stats nvtx_gpu_proj_trace"
grain    = "NVTX range that launched GPU operations"
needs    = ["annotation", "nvtx_range", "gpu_op"]
optional = ["range_gpu_time", "annotation_tree", "process", "thread"]
reduce   = "concat"
returns = [
    "trace_id", "nvtx_range_id", "parent_id", "depth", "range_name", "style", "pid", "tid",
    "gpu_start_ns", "gpu_ns", "gpu_sum_ns", "start_ns", "host_ns", "launches", "operations",
]
[columns]
nvtx_range_id = "key of the range"
parent_id = "enclosing push/pop range of the same thread and domain; NULL for a root"
depth = "number of enclosing ranges in the domain"
range_name = "domain:text"
style = "push_pop or start_end"
pid = "process"
tid = "thread"
start_ns = "start on the host"
host_ns = "duration on the host"
*/
-- Look up only the ranges of the requested rows (first_row to last_row).
WITH shown AS MATERIALIZED (
    FROM range_gpu_time
    WHERE position >= coalesce(getvariable('first_row'), position)
      AND position <= coalesce(getvariable('last_row'), position)
)
SELECT j.trace_id, j.annotation_id AS nvtx_range_id, t.parent_id, t.depth,
    coalesce(r.domain || ':', '') || coalesce(r.text, '') AS range_name,
    r.kind AS style, p.pid, th.tid, j.gpu_start_ns, j.gpu_ns, j.gpu_sum_ns, r.start_ns,
    r.end_ns - r.start_ns AS host_ns, j.launches, j.operations
FROM shown j
JOIN annotation r USING (trace_id, annotation_id)
JOIN annotation_tree t USING (trace_id, annotation_id)
LEFT JOIN process p ON p.trace_id = r.trace_id AND p.process_id = r.process_id
LEFT JOIN (
    SELECT trace_id, process_id, thread_id, any_value(tid) AS tid FROM thread GROUP BY ALL
) th
    ON  th.trace_id = r.trace_id AND th.process_id = r.process_id AND th.thread_id = r.thread_id
ORDER BY j.position
