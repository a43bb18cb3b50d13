/*
title    = "Ranges that load input"
question = "Which ranges load input, in processes that mark it?"
source   = """ranges of the phase data, or without them of PyTorch's DataLoader, which are inside
    those of the phase data"""
grain    = "range that loads input"
optional = ["annotation_range", "annotation_semantics"]
returns = ["trace_id", "process_id", "thread_id", "start_ns", "end_ns", "evidence"]
[columns]
thread_id = "key of the thread"
start_ns = "start"
end_ns = "end"
evidence = "data range or DataLoader range, the same for all ranges of a process"
*/
SELECT trace_id, process_id, thread_id, start_ns, end_ns, evidence
FROM (
    SELECT trace_id, process_id, thread_id, start_ns, end_ns, 'data range' AS evidence
    FROM annotation_semantics
    WHERE phase = 'data'
    UNION ALL
    SELECT trace_id, process_id, thread_id, start_ns, end_ns, 'DataLoader range'
    FROM annotation_range
    WHERE regexp_matches(text, '^enumerate\(DataLoader\)|DataLoader.*__next__')
)
QUALIFY evidence = max(evidence) OVER (PARTITION BY trace_id, process_id)
