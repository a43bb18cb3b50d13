/*
title    = "NVTX ranges"
question = "Which ranges did the program mark with NVTX?"
grain    = "NVTX range"
view     = true
optional = ["annotation"]
returns = [
    "trace_id", "nvtx_range_id", "start_ns", "end_ns", "is_open", "kind", "process_id", "thread_id",
    "end_thread_id", "domain_id", "domain", "text", "payload",
]
[columns]
nvtx_range_id = "number, unique in the trace, in the order of the file"
start_ns = "start, trace clock"
kind = "push_pop (nested on a thread) or start_end"
domain_id = "NVTX domain number; 0 is the default domain"
domain = "NVTX domain name; NULL for the default domain"
[advice]
missing = "needs ranges of the program, and the trace has none; {ranges}"
*/
SELECT trace_id, annotation_id AS nvtx_range_id, start_ns, end_ns, is_open, kind, process_id,
    thread_id, end_thread_id, domain_id, domain, text, payload
FROM annotation
WHERE source IN ('nvtx', 'python') AND kind <> 'mark'
