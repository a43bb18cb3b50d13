/*
title    = "Launches of GPU operations"
question = "Which host call launched a GPU operation?"
source   = "CUPTI correlation ids, which are unique per process only"
grain    = "GPU operation whose launch is recorded"
needs    = ["gpu_op", "launch"]
[columns.trace_id]
doc = "the trace"
[columns.op_kind]
doc = "kernel, memcpy, memset or graph"
[columns.op_id]
doc = "the operation"
[columns.api_call_id]
doc = "launching call"
[columns.process_id]
doc = "key of the process of the call; the operation's own can be unknown"
[columns.thread_id]
doc = "key of the thread"
[columns.launch_start_ns]
unit = "ns"
doc = "start of the call"
[columns.launch_end_ns]
unit = "ns"
doc = "end of the call"
[columns.host_thread]
doc = "number of the thread (launch); NULL when the thread is unknown"
[columns.position]
doc = "order of the call among the launches of its thread (launch)"
*/
SELECT o.trace_id, o.op_kind, o.op_id, l.api_call_id, l.process_id, l.thread_id,
    l.start_ns AS launch_start_ns, l.end_ns AS launch_end_ns, l.host_thread, l.position
FROM gpu_op o
JOIN launch l
    ON  l.trace_id = o.trace_id AND l.correlation_id = o.correlation_id
    AND (l.process_id = o.process_id OR o.process_id IS NULL AND l.is_sole)
    AND (l.from_ns IS NULL OR o.start_ns >= l.from_ns)
    AND (l.until_ns IS NULL OR o.start_ns < l.until_ns)
