/*
title    = "Iteration boundaries"
question = "Where does each iteration start and end, and how is that known?"
source   = """marks of the program; else repeated NVTX ranges or an anchor kernel, whichever
    explains more"""
grain    = "iteration of a process"
needs    = [["_iteration_mark", "_iteration_family", "_iteration_anchor"], "trace"]
returns = [
    "trace_id", "process_id", "iteration", "label", "start_ns", "end_ns", "thread_id",
    "annotation_id", "method", "confidence", "next_gpu_ns", "is_gpu_time",
]
[columns]
label = "text of the range or mark; with an anchor kernel, its name"
start_ns = "start on the host; on the GPU if is_gpu_time"
end_ns = """end on the host; on the GPU if is_gpu_time. Iterations marked by start/end ranges may
    overlap"""
thread_id = "thread that marked the iteration, or that launched the anchor kernel"
annotation_id = "range of the iteration; NULL if the iteration is not a single range"
method = """nvtx range, nvtx mark or anchor kernel; torch or roctx for nvtx in traces of
    torch.profiler or rocprofv3"""
confidence = """1 for ranges and marks with a name of iterations; else that of _iteration_family or
    _iteration_anchor"""
next_gpu_ns = """of the last iteration of an anchor kernel, start on the GPU of one that follows and
    was not fully recorded; NULL for other iterations and without one"""
*/
-- A family of ranges is used if it finds as many iterations as the anchor kernel (± 1), or if its
-- confidence is at least score × coverage of the anchor − 0.05: if both explain as much, ranges
-- written by a person are more meaningful.
WITH
rival AS (
    SELECT f.trace_id, f.process_id,
        a.trace_id IS NULL OR abs(a.iterations - f.iterations) <= 1 OR f.worth >= a.worth - 0.05
            AS is_family
    FROM (
        SELECT trace_id, process_id, count(*) AS iterations, any_value(confidence) AS worth
        FROM _iteration_family GROUP BY ALL
    ) f
    LEFT JOIN (
        SELECT trace_id, process_id, count(*) AS iterations,
            any_value(confidence * coverage) AS worth
        FROM _iteration_anchor GROUP BY ALL
    ) a ON a.trace_id = f.trace_id AND a.process_id IS NOT DISTINCT FROM f.process_id
)
SELECT m.trace_id, m.process_id, m.iteration, m.label, m.start_ns, m.end_ns, m.thread_id,
    m.annotation_id,
    replace(m.method, 'nvtx', CASE t.tool WHEN 'torch' THEN 'torch' WHEN 'rocprof' THEN 'roctx'
        ELSE 'nvtx' END) AS method,
    1.0 AS confidence, NULL AS next_gpu_ns, false AS is_gpu_time
FROM _iteration_mark m JOIN trace t USING (trace_id)
UNION ALL
SELECT f.trace_id, f.process_id, f.iteration, f.label, f.start_ns, f.end_ns, f.thread_id,
    f.annotation_id,
    CASE t.tool WHEN 'torch' THEN 'torch range' WHEN 'rocprof' THEN 'roctx range'
        ELSE 'nvtx range' END,
    f.confidence, NULL, false
FROM _iteration_family f
JOIN trace t ON t.trace_id = f.trace_id
JOIN rival r ON r.trace_id = f.trace_id AND r.process_id IS NOT DISTINCT FROM f.process_id
WHERE r.is_family
UNION ALL
SELECT a.trace_id, a.process_id, a.iteration, a.label, a.start_ns, a.end_ns, a.thread_id, NULL,
    'anchor kernel', a.confidence, a.next_gpu_ns, a.is_gpu_time
FROM _iteration_anchor a
LEFT JOIN rival r ON r.trace_id = a.trace_id AND r.process_id IS NOT DISTINCT FROM a.process_id
WHERE r.is_family IS NOT TRUE
