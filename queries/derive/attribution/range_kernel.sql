/*
title    = "Kernels of NVTX ranges"
question = "How long do the kernels take that each annotated part of the program launches?"
source   = "same sums as nsys stats nvtx_kern_sum: a kernel counts in every range around its launch"
grain    = """kernel name and launching thread, per path of NVTX ranges or, with by=range, per
    domain and text"""
needs    = ["kernel"]
optional = ["op_launch", "_launch_range", "annotation_range", "annotation_tree",
    "counter_donor_trace"]
returns = [
    "trace_id", "path_id", "annotation_id", "begin_ns", "process_id", "thread_id", "kernel_name",
    "range_instances", "instances", "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns",
    "stddev_ns", "position",
]
[params.by]
doc = """path: group ranges with equal ancestors; range: group ranges with equal domain and text,
    wherever they are nested"""
choices = ["path", "range"]
default = "path"
[columns]
path_id = """path_id or, with by=range, text_id of the ranges (annotation_tree); 0 for kernels
    outside all ranges"""
annotation_id = "smallest annotation_id of the ranges"
begin_ns = "start of the first range"
process_id = "key of the launching process"
thread_id = "key of the launching thread"
kernel_name = "demangled name"
range_instances = "ranges that launched this kernel"
instances = "kernels launched inside the ranges"
total_ns = "sum of durations; with nested ranges of the same name, a kernel counts in both"
mean_ns = "mean duration"
median_ns = "median duration"
min_ns = "shortest"
max_ns = "longest"
stddev_ns = "sample standard deviation; NULL for a single kernel"
position = """order of the rows, from 1: by trace, begin_ns, annotation_id, process, thread,
    total_ns (largest first) and kernel name; kernels outside all ranges come last"""
*/
WITH
member AS (
    SELECT trace_id, annotation_id,
        CASE WHEN getvariable('by') = 'path' THEN path_id ELSE text_id END
            AS path_id
    FROM annotation_tree
),
launched AS (
    SELECT k.trace_id, k.kernel_id, k.name AS kernel_name, k.duration_ns,
        l.api_call_id, l.process_id, l.thread_id
    FROM kernel k
    LEFT JOIN op_launch l
        ON l.trace_id = k.trace_id AND l.op_kind = 'kernel' AND l.op_id = k.kernel_id
    WHERE k.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
),
-- Processes, threads and names are numbered, because grouping by numbers is faster.
place AS MATERIALIZED (
    SELECT *, row_number() OVER () AS place
    FROM (SELECT DISTINCT trace_id, process_id, thread_id, kernel_name FROM launched)
),
contained AS MATERIALIZED (
    SELECT p.place, coalesce(m.path_id, 0) AS path_id, m.annotation_id, l.kernel_id, l.duration_ns
    FROM launched l
    JOIN place p
        ON  p.trace_id = l.trace_id AND p.process_id IS NOT DISTINCT FROM l.process_id
        AND p.thread_id IS NOT DISTINCT FROM l.thread_id AND p.kernel_name = l.kernel_name
    LEFT JOIN _launch_range lr
        ON lr.trace_id = l.trace_id AND lr.api_call_id = l.api_call_id
    LEFT JOIN member m
        ON m.trace_id = lr.trace_id AND m.annotation_id = lr.annotation_id
),
by_range AS (
    SELECT place, path_id, annotation_id, count(*) AS contained, count(duration_ns) AS timed,
        sum(duration_ns)::BIGINT AS total_ns, min(duration_ns) AS min_ns,
        max(duration_ns) AS max_ns,
        sum(duration_ns::HUGEINT * duration_ns) AS squares
    FROM contained GROUP BY ALL
),
summed AS MATERIALIZED (
    SELECT place, path_id, count(annotation_id) AS range_instances,
        sum(contained)::BIGINT AS contained,
        sum(timed)::BIGINT AS timed, sum(total_ns)::BIGINT AS total_ns, min(min_ns) AS min_ns,
        max(max_ns) AS max_ns, sum(squares)::HUGEINT AS squares
    FROM by_range GROUP BY ALL
),
-- Texts with numbers in them mostly have a single kernel; its values need no distinct count or
-- median.
several AS (
    SELECT h.place, h.path_id, count(DISTINCT h.kernel_id) AS instances,
        median(h.duration_ns)::DOUBLE AS median_ns
    FROM contained h
    SEMI JOIN (SELECT place, path_id FROM summed WHERE contained > 1) s
        ON s.place = h.place AND s.path_id = h.path_id
    GROUP BY ALL
),
path AS (
    SELECT m.trace_id, m.path_id, min(m.annotation_id) AS annotation_id, min(r.start_ns) AS begin_ns
    FROM member m JOIN annotation_range r USING (trace_id, annotation_id)
    GROUP BY ALL
)
SELECT *, row_number() OVER () AS position
FROM (
    SELECT p.trace_id, s.path_id, h.annotation_id, h.begin_ns, p.process_id, p.thread_id,
        p.kernel_name, s.range_instances, coalesce(d.instances, 1) AS instances, s.total_ns,
        s.total_ns / nullif(s.timed, 0) AS mean_ns, coalesce(d.median_ns, s.total_ns) AS median_ns,
        s.min_ns, s.max_ns,
        -- Sums of integers are exact, so the result does not depend on the order of rows.
        sqrt((s.timed * s.squares - s.total_ns::HUGEINT * s.total_ns)
            / nullif(s.timed * (s.timed - 1.0), 0)) AS stddev_ns
    FROM summed s
    JOIN place p USING (place)
    LEFT JOIN several d ON d.place = s.place AND d.path_id = s.path_id
    LEFT JOIN path h ON h.trace_id = p.trace_id AND h.path_id = s.path_id
    ORDER BY p.trace_id, h.begin_ns NULLS LAST, h.annotation_id, p.process_id, p.thread_id,
        s.total_ns DESC NULLS LAST, p.kernel_name
)
