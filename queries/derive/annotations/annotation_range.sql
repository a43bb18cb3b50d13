/*
title    = "NVTX and framework ranges"
question = "Which annotations are ranges of the program, its framework or the profiler?"
grain    = "range"
view     = true
optional = ["annotation"]
returns = [
    "trace_id", "annotation_id", "source", "kind", "start_ns", "end_ns", "is_open", "process_id",
    "thread_id", "end_thread_id", "domain_id", "domain", "text", "payload",
]
[columns]
kind = "push_pop (nested on a thread) or start_end"
start_ns = "start, trace clock"
domain_id = "NVTX domain, 0 the default; -1 operator and module, -2 profiler"
*/
FROM annotation
-- Frames of Python own no GPU work.
WHERE kind <> 'mark' AND source IS DISTINCT FROM 'frame'
