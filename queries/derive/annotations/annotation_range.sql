/*
title    = "NVTX and framework ranges"
question = "Which annotations are ranges of the program, its framework or the profiler?"
grain    = "range"
view     = true
optional = ["annotation"]
[columns.trace_id]
doc = "the trace"
[columns.annotation_id]
doc = "number, unique in the trace, in the order of the file"
[columns.source]
doc = "as annotation.source"
[columns.kind]
doc = "push_pop (nested on a thread) or start_end"
[columns.start_ns]
unit = "ns"
doc = "start, trace clock"
[columns.end_ns]
unit = "ns"
doc = "end, trace clock; for an open range, end of the trace"
[columns.is_open]
doc = "true if the range was never closed"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "thread that opened the range"
[columns.end_thread_id]
doc = "thread that closed the range"
[columns.domain_id]
doc = "NVTX domain, 0 the default; -1 operator and module, -2 profiler"
[columns.domain]
doc = "NVTX domain name; NULL for the default and other sources"
[columns.text]
doc = "message"
[columns.payload]
doc = "numeric payload; NULL without one"
*/
FROM annotation
-- Frames of Python own no GPU work.
WHERE kind <> 'mark' AND source IS DISTINCT FROM 'frame'
