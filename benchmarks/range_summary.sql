/*
title    = "Range summary"
question = "How often was each range entered, and for how long? (what nsys stats calls nvtxsum)"
needs    = ["nvtx_range"]
grain    = "one text of a trace"
[columns.trace_id]
doc = "the trace"
[columns.kind]
doc = "push_pop or start_end"
[columns.text]
doc = "text of the range"
[columns.instances]
doc = "number of ranges"
[columns.total_ns]
unit = "ns"
doc = "sum of their lengths on the host"
[columns.median_ns]
unit = "ns"
doc = "median length"
[columns.min_ns]
unit = "ns"
doc = "shortest"
[columns.max_ns]
unit = "ns"
doc = "longest"
*/
SELECT trace_id, kind, text, count(*) AS instances,
    sum(end_ns - start_ns)::BIGINT AS total_ns,
    median(end_ns - start_ns) AS median_ns,
    min(end_ns - start_ns) AS min_ns, max(end_ns - start_ns) AS max_ns
FROM nvtx_range
GROUP BY ALL
ORDER BY total_ns DESC, trace_id, kind, text
