/*
title    = "NVTX ranges"
question = "How long does each annotated part of the program take on the host?"
source   = """same sums as nsys stats nvtx_sum; a range without an end lasts until the end of the
    trace"""
grain    = "domain, text and style of NVTX ranges, per trace"
needs    = ["annotation", "annotation_host_time"]
partial  = ["annotation_id", "start_ns", "end_ns", "is_open", "kind", "domain", "text"]
reduce   = "concat"
returns = [
    "trace_id", "range_name", "style", "instances", "open_instances", "total_ns", "mean_ns",
    "median_ns", "min_ns", "max_ns", "stddev_ns", "share_pct",
]
[columns]
range_name = "domain:text, or the text in the default domain; NULL for ranges without a text"
style = "push_pop or start_end"
mean_ns = "mean duration"
share_pct = """total ÷ total of all ranges of the trace; with nested ranges, the sum exceeds the
    elapsed time"""
[plot]
kind = "barh"
x = ["range_name", "style"]
y = [["total_ns"], ["instances"]]
limit = 30
*/
-- The sum is a separate CTE, because a window function would buffer up to a million texts. Equal
-- totals are ordered by the first range, because sorting numbers is faster than sorting texts.
WITH whole AS (
    SELECT trace_id, sum(total_ns) AS whole_ns FROM annotation_host_time GROUP BY trace_id
)
SELECT trace_id, coalesce(domain || ':', '') || text AS range_name, kind AS style,
    instances, open_instances, total_ns, total_ns / instances AS mean_ns, median_ns, min_ns, max_ns,
    stddev_ns, 100.0 * total_ns / nullif(whole_ns, 0) AS share_pct
FROM annotation_host_time JOIN whole USING (trace_id)
ORDER BY trace_id, total_ns DESC, first_range_id
