/*
title    = "NVTX marks"
question = "At which times did the program set an NVTX mark?"
grain    = "NVTX mark"
view     = true
optional = ["annotation"]
[columns.trace_id]
doc = "the trace"
[columns.timestamp_ns]
unit = "ns"
doc = "time, trace clock"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "thread that set the mark"
[columns.domain_id]
doc = "NVTX domain number; 0 is the default domain"
[columns.domain]
doc = "NVTX domain name; NULL for the default domain"
[columns.text]
doc = "message"
[advice]
missing = "needs marks of the program, and the trace has none; {ranges}"
*/
SELECT trace_id, start_ns AS timestamp_ns, process_id, thread_id, domain_id, domain, text
FROM annotation
WHERE source IN ('nvtx', 'python') AND kind = 'mark'
