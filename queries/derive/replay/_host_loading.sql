/*
title    = "Ranges that load input"
question = "Which ranges load input, in processes that mark it?"
source   = """ranges of the phase data, or without them of PyTorch's DataLoader, which are inside
    those of the phase data"""
grain    = "range that loads input"
optional = ["annotation_range", "annotation_semantics"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.start_ns]
unit = "ns"
doc = "start"
[columns.end_ns]
unit = "ns"
doc = "end"
[columns.evidence]
doc = "data range or DataLoader range, the same for all ranges of a process"
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
