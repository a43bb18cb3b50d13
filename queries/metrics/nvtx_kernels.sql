/*
title    = "Kernels by NVTX range"
question = "Which kernels does each annotated part of the program launch?"
source   = "the same sums as nsys stats nvtx_kern_sum: a kernel counts in every range around its launch"
grain    = "NVTX range and kernel name, per thread of a trace"
needs    = ["kernel", "nvtx_range"]
optional = ["launch", "launch_range", "nvtx_tree", "process", "thread", "lending_trace"]
[params.by]
doc = "path: ranges with the same ancestors are one; range: ranges with the same domain and text are one, wherever they are"
choices = ["path", "range"]
default = "path"
[columns.trace_id]
doc = "the trace"
[columns.range_path]
doc = "domain and texts from the root to the range (domain: a > b), or domain:text by range; NULL for kernels outside every range"
[columns.style]
doc = "push_pop or start_end"
[columns.pid]
doc = "process that launched"
[columns.tid]
doc = "thread that launched"
[columns.range_instances]
doc = "ranges that launched this kernel"
[columns.kernel_name]
doc = "demangled name"
[columns.instances]
doc = "kernels launched inside the ranges"
[columns.total_ns]
unit = "ns"
doc = "sum of their durations; where a range lies in another of the same name the kernel counts in both"
[columns.mean_ns]
unit = "ns"
doc = "mean duration"
[columns.median_ns]
unit = "ns"
doc = "median duration"
[columns.min_ns]
unit = "ns"
doc = "shortest"
[columns.max_ns]
unit = "ns"
doc = "longest"
[columns.stddev_ns]
unit = "ns"
doc = "sample standard deviation; NULL for a single kernel"
*/
WITH
launched AS (
    SELECT k.trace_id, k.kernel_id, k.name AS kernel_name, k.duration_ns,
        l.api_call_id, l.process_id, l.thread_id
    FROM kernel k
    LEFT JOIN launch l
        ON  l.trace_id = k.trace_id AND l.correlation_id = k.correlation_id
        AND (l.process_id = k.process_id OR (k.process_id IS NULL AND l.is_sole))
    WHERE k.trace_id NOT IN (SELECT trace_id FROM lending_trace)
),
in_range AS (
    SELECT l.*, r.nvtx_range_id, r.kind AS style,
        CASE coalesce(getvariable('by'), 'path')
            WHEN 'range' THEN coalesce(r.domain || ':', '') || coalesce(r.text, '')
            ELSE coalesce(r.domain || ': ', '') || t.path
        END AS range_path
    FROM launched l
    LEFT JOIN launch_range lr
        ON lr.trace_id = l.trace_id AND lr.api_call_id = l.api_call_id
    LEFT JOIN nvtx_range r
        ON r.trace_id = lr.trace_id AND r.nvtx_range_id = lr.nvtx_range_id
    LEFT JOIN nvtx_tree t
        ON t.trace_id = lr.trace_id AND t.nvtx_range_id = lr.nvtx_range_id
)
SELECT i.trace_id, i.range_path, i.style, p.pid, th.tid,
    count(DISTINCT i.nvtx_range_id) AS range_instances, i.kernel_name,
    count(DISTINCT i.kernel_id) AS instances, sum(i.duration_ns)::BIGINT AS total_ns,
    avg(i.duration_ns) AS mean_ns, median(i.duration_ns)::DOUBLE AS median_ns,
    min(i.duration_ns) AS min_ns, max(i.duration_ns) AS max_ns,
    stddev_samp(i.duration_ns) AS stddev_ns
FROM in_range i
LEFT JOIN process p ON p.trace_id = i.trace_id AND p.process_id = i.process_id
LEFT JOIN (SELECT trace_id, process_id, thread_id, any_value(tid) AS tid FROM thread GROUP BY ALL) th
    ON  th.trace_id = i.trace_id AND th.process_id = i.process_id AND th.thread_id = i.thread_id
GROUP BY i.trace_id, i.range_path, i.style, p.pid, th.tid, i.kernel_name
ORDER BY i.trace_id, i.range_path NULLS LAST, i.style, p.pid, th.tid, total_ns DESC, i.kernel_name
