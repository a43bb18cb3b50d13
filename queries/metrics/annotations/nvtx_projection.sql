/*
title    = "NVTX ranges projected onto the GPU"
question = "When did the GPU run the work that each range launched?"
source   = "same projection as nsys stats nvtx_gpu_proj_trace"
grain    = "NVTX range that launched GPU operations"
needs    = ["annotation", "nvtx_range", "gpu_op"]
optional = ["range_gpu_time", "annotation_tree", "process", "thread"]
reduce   = "concat"
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
doc = "key of the range"
[columns.parent_id]
doc = "enclosing push/pop range of the same thread and domain; NULL for a root"
[columns.depth]
doc = "number of enclosing ranges in the domain"
[columns.range_name]
doc = "domain:text"
[columns.style]
doc = "push_pop or start_end"
[columns.pid]
doc = "process"
[columns.tid]
doc = "thread"
[columns.gpu_start_ns]
unit = "ns"
doc = "start of the first operation launched in the range"
[columns.gpu_ns]
unit = "ns"
doc = "end of the last operation − start of the first"
[columns.gpu_sum_ns]
unit = "ns"
doc = "sum of the durations of the operations"
[columns.start_ns]
unit = "ns"
doc = "start on the host"
[columns.host_ns]
unit = "ns"
doc = "duration on the host"
[columns.launches]
doc = "calls in the range that launched operations (distinct correlation ids)"
[columns.operations]
doc = "operations launched in the range"
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
