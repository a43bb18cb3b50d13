/*
title    = "NVTX ranges"
question = "Which ranges did the program mark with NVTX?"
grain    = "NVTX range"
view     = true
optional = ["annotation"]
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
doc = "number, unique in the trace, in the order of the file"
[columns.start_ns]
unit = "ns"
doc = "start, trace clock"
[columns.end_ns]
unit = "ns"
doc = "end, trace clock; for an open range, end of the trace"
[columns.is_open]
doc = "true if the range was never closed"
[columns.kind]
doc = "push_pop (nested on a thread) or start_end"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "thread that opened the range"
[columns.end_thread_id]
doc = "thread that closed the range"
[columns.domain_id]
doc = "NVTX domain number; 0 is the default domain"
[columns.domain]
doc = "NVTX domain name; NULL for the default domain"
[columns.text]
doc = "message"
[columns.payload]
doc = "numeric payload; NULL without one"
[advice]
missing = "needs ranges of the program, and the trace has none; {ranges}"
*/
SELECT trace_id, annotation_id AS nvtx_range_id, start_ns, end_ns, is_open, kind, process_id,
    thread_id, end_thread_id, domain_id, domain, text, payload
FROM annotation
WHERE source IN ('nvtx', 'python') AND kind <> 'mark'
