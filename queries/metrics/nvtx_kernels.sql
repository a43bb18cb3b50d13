/*
title    = "Kernels by NVTX range"
question = "Which kernels does each annotated part of the program launch?"
source   = "the same sums as nsys stats nvtx_kern_sum: a kernel counts in every range around its launch"
grain    = "NVTX range and kernel name, per thread of a trace"
needs    = ["kernel", "nvtx_range"]
optional = ["launch", "launch_range", "nvtx_path", "process", "thread", "lending_trace"]
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
-- Paths are long: kernels are grouped by a number that stands for the path.
node AS (
    SELECT r.trace_id, r.nvtx_range_id, r.kind AS style,
        CASE WHEN by_path THEN hash(r.domain, t.path_id) ELSE hash(r.domain, r.text) END AS path_id,
        CASE WHEN by_path THEN coalesce(r.domain || ': ', '') || t.path
             ELSE coalesce(r.domain || ':', '') || coalesce(r.text, '') END AS range_path
    FROM nvtx_range r
    JOIN nvtx_path t USING (trace_id, nvtx_range_id),
        (SELECT coalesce(getvariable('by'), 'path') = 'path' AS by_path)
),
summed AS (
    SELECT l.trace_id, n.path_id, n.style, l.process_id, l.thread_id, l.kernel_name,
        count(DISTINCT n.nvtx_range_id) AS range_instances,
        count(DISTINCT l.kernel_id) AS instances, sum(l.duration_ns)::BIGINT AS total_ns,
        avg(l.duration_ns) AS mean_ns, median(l.duration_ns)::DOUBLE AS median_ns,
        min(l.duration_ns) AS min_ns, max(l.duration_ns) AS max_ns,
        -- exact sums, so that the order of addition does not show
        sqrt((count(l.duration_ns) * sum(l.duration_ns::HUGEINT * l.duration_ns) - sum(l.duration_ns)::HUGEINT * sum(l.duration_ns))
            / nullif(count(l.duration_ns) * (count(l.duration_ns) - 1.0), 0)) AS stddev_ns
    FROM launched l
    LEFT JOIN launch_range lr
        ON lr.trace_id = l.trace_id AND lr.api_call_id = l.api_call_id
    LEFT JOIN node n
        ON n.trace_id = lr.trace_id AND n.nvtx_range_id = lr.nvtx_range_id
    GROUP BY l.trace_id, n.path_id, n.style, l.process_id, l.thread_id, l.kernel_name
),
path AS (SELECT trace_id, path_id, min(range_path) AS range_path FROM node GROUP BY trace_id, path_id)
SELECT s.trace_id, n.range_path, s.style, p.pid, th.tid, s.range_instances, s.kernel_name,
    s.instances, s.total_ns, s.mean_ns, s.median_ns, s.min_ns, s.max_ns, s.stddev_ns
FROM summed s
LEFT JOIN path n ON n.trace_id = s.trace_id AND n.path_id = s.path_id
LEFT JOIN process p ON p.trace_id = s.trace_id AND p.process_id = s.process_id
LEFT JOIN (SELECT trace_id, process_id, thread_id, any_value(tid) AS tid FROM thread GROUP BY ALL) th
    ON  th.trace_id = s.trace_id AND th.process_id = s.process_id AND th.thread_id = s.thread_id
ORDER BY s.trace_id, n.range_path NULLS LAST, s.path_id, s.style, p.pid, s.process_id, th.tid,
    s.thread_id, s.total_ns DESC NULLS LAST, s.kernel_name
