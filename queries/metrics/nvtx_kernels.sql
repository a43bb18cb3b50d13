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
-- Processes, threads and names are numbered, so that kernels are grouped by numbers.
place AS MATERIALIZED (
    SELECT *, row_number() OVER () AS place
    FROM (SELECT DISTINCT trace_id, process_id, thread_id, kernel_name FROM launched)
),
numbered AS MATERIALIZED (
    SELECT p.place, l.trace_id, l.api_call_id, l.kernel_id, l.duration_ns
    FROM launched l
    JOIN place p
        ON  p.trace_id = l.trace_id AND p.process_id IS NOT DISTINCT FROM l.process_id
        AND p.thread_id IS NOT DISTINCT FROM l.thread_id AND p.kernel_name = l.kernel_name
),
setting AS (SELECT coalesce(getvariable('by'), 'path') = 'path' AS by_path),
-- Paths are long: kernels are grouped by a number that stands for the path, and one of its ranges
-- tells the text.
node AS (
    SELECT r.trace_id, r.nvtx_range_id, r.kind <> 'push_pop' AS is_free,
        CASE WHEN by_path THEN hash(r.domain, t.path_id) ELSE hash(r.domain, r.text) END AS path_id
    FROM nvtx_range r
    JOIN nvtx_path t USING (trace_id, nvtx_range_id), setting
),
summed AS (
    SELECT l.place, n.path_id, n.is_free,
        min(n.nvtx_range_id) AS nvtx_range_id,
        count(DISTINCT n.nvtx_range_id) AS range_instances,
        count(DISTINCT l.kernel_id) AS instances, sum(l.duration_ns)::BIGINT AS total_ns,
        avg(l.duration_ns) AS mean_ns, median(l.duration_ns)::DOUBLE AS median_ns,
        min(l.duration_ns) AS min_ns, max(l.duration_ns) AS max_ns,
        -- exact sums, so that the order of addition does not show
        sqrt((count(l.duration_ns) * sum(l.duration_ns::HUGEINT * l.duration_ns) - sum(l.duration_ns)::HUGEINT * sum(l.duration_ns))
            / nullif(count(l.duration_ns) * (count(l.duration_ns) - 1.0), 0)) AS stddev_ns
    FROM numbered l
    LEFT JOIN launch_range lr
        ON lr.trace_id = l.trace_id AND lr.api_call_id = l.api_call_id
    LEFT JOIN node n
        ON n.trace_id = lr.trace_id AND n.nvtx_range_id = lr.nvtx_range_id
    GROUP BY l.place, n.path_id, n.is_free
)
SELECT c.trace_id,
    CASE
        WHEN s.path_id IS NULL THEN NULL
        WHEN by_path THEN coalesce(r.domain || ': ', '') || t.path
        ELSE coalesce(r.domain || ':', '') || coalesce(r.text, '')
    END AS range_path,
    r.kind AS style, p.pid, th.tid, s.range_instances, c.kernel_name,
    s.instances, s.total_ns, s.mean_ns, s.median_ns, s.min_ns, s.max_ns, s.stddev_ns
FROM summed s
JOIN place c USING (place)
CROSS JOIN setting
LEFT JOIN nvtx_range r ON r.trace_id = c.trace_id AND r.nvtx_range_id = s.nvtx_range_id
LEFT JOIN nvtx_path t ON by_path AND t.trace_id = c.trace_id AND t.nvtx_range_id = s.nvtx_range_id
LEFT JOIN process p ON p.trace_id = c.trace_id AND p.process_id = c.process_id
LEFT JOIN (SELECT trace_id, process_id, thread_id, any_value(tid) AS tid FROM thread GROUP BY ALL) th
    ON  th.trace_id = c.trace_id AND th.process_id = c.process_id AND th.thread_id = c.thread_id
ORDER BY c.trace_id, range_path NULLS LAST, s.path_id, style, p.pid, c.process_id, th.tid,
    c.thread_id, s.total_ns DESC NULLS LAST, c.kernel_name
