/*
title    = "Annotations that are ranges"
question = "Which annotations last from a start to an end?"
grain    = "one range"
view     = true
optional = ["annotation"]
[columns.trace_id]
doc = "the trace"
[columns.annotation_id]
doc = "number, unique in the trace, in the order of the file"
[columns.source]
doc = "who made it: nvtx, operator (framework), python, profiler"
[columns.kind]
doc = "push_pop (nested on a thread), start_end, mark (instant)"
[columns.start_ns]
unit = "ns"
doc = "start, trace clock; of a mark its time"
[columns.end_ns]
unit = "ns"
doc = "end; the trace's end for an open range"
[columns.is_open]
doc = "the range was never closed"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "thread that opened it"
[columns.end_thread_id]
doc = "thread that closed it"
[columns.domain_id]
doc = "NVTX domain, 0 the default; -1 operator, -2 python, -3 profiler"
[columns.domain]
doc = "NVTX domain name; NULL for the default and other sources"
[columns.text]
doc = "message"
[columns.payload]
doc = "numeric payload, if one was given"
*/
FROM annotation
WHERE kind <> 'mark'
