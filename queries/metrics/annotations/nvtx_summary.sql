/*
title    = "NVTX ranges"
question = "How long does each annotated part of the program take on the host?"
source   = "the same sums as nsys stats nvtx_sum; a range that was never closed lasts until the end of the trace"
grain    = "domain, text and style of a trace's ranges"
needs    = ["annotation", "annotation_host_time"]
partial  = ["annotation_id", "source", "start_ns", "end_ns", "is_open", "kind", "domain", "text"]
[columns.trace_id]
doc = "the trace"
[columns.range_name]
doc = "domain:text, or the text in the default domain; NULL for ranges without a text"
[columns.style]
doc = "push_pop or start_end"
[columns.instances]
doc = "ranges"
[columns.open_instances]
doc = "of these, ranges that were never closed"
[columns.total_ns]
unit = "ns"
doc = "sum of their durations on the host; ranges inside others count in both"
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
doc = "sample standard deviation; NULL for a single range"
[columns.share_pct]
unit = "%"
doc = "total ÷ total of all ranges of the trace, which is no elapsed time where ranges nest"
[plot]
kind = "barh"
x = ["range_name", "style"]
y = [["total_ns"], ["instances"]]
limit = 30
*/
-- A window over the sums would hold each of a million texts, and sorting by texts takes longer than by
-- numbers: of equal totals, the one that began first comes first.
WITH whole AS (SELECT trace_id, sum(total_ns) AS whole_ns FROM annotation_host_time GROUP BY trace_id)
SELECT trace_id, coalesce(domain || ':', '') || text AS range_name, kind AS style,
    instances, open_instances, total_ns, total_ns / instances AS mean_ns, median_ns, min_ns, max_ns,
    stddev_ns, 100.0 * total_ns / nullif(whole_ns, 0) AS share_pct
FROM annotation_host_time JOIN whole USING (trace_id)
ORDER BY trace_id, total_ns DESC, first_range_id
