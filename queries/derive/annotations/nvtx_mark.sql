/*
title    = "NVTX marks"
question = "At which times did the program set an NVTX mark?"
grain    = "NVTX mark"
view     = true
optional = ["annotation"]
returns = ["trace_id", "timestamp_ns", "process_id", "thread_id", "domain_id", "domain", "text"]
[columns]
timestamp_ns = "time, trace clock"
thread_id = "thread that set the mark"
domain_id = "NVTX domain number; 0 is the default domain"
domain = "NVTX domain name; NULL for the default domain"
[advice]
missing = "needs marks of the program, and the trace has none; {ranges}"
*/
SELECT trace_id, start_ns AS timestamp_ns, process_id, thread_id, domain_id, domain, text
FROM annotation
WHERE source IN ('nvtx', 'python') AND kind = 'mark'
