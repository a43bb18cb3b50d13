/*
title    = "Launches of GPU operations"
question = "Which host call launched a GPU operation?"
source   = "CUPTI correlation ids, which are unique per process only"
grain    = "GPU operation whose launch is recorded"
needs    = ["gpu_op", "launch"]
returns = [
    "trace_id", "op_kind", "op_id", "api_call_id", "process_id", "thread_id", "launch_start_ns",
    "launch_end_ns", "host_thread", "position",
]
[columns]
op_kind = "kernel, memcpy, memset or graph"
op_id = "the operation"
process_id = "key of the process of the call; the operation's own can be unknown"
launch_start_ns = "start of the call"
launch_end_ns = "end of the call"
host_thread = "number of the thread (launch); NULL when the thread is unknown"
position = "order of the call among the launches of its thread (launch)"
*/
SELECT o.trace_id, o.op_kind, o.op_id, l.api_call_id, l.process_id, l.thread_id,
    l.start_ns AS launch_start_ns, l.end_ns AS launch_end_ns, l.host_thread, l.position
FROM gpu_op o
JOIN launch l
    ON  l.trace_id = o.trace_id AND l.correlation_id = o.correlation_id
    AND (l.process_id = o.process_id OR o.process_id IS NULL AND l.is_sole)
    AND (l.from_ns IS NULL OR o.start_ns >= l.from_ns)
    AND (l.until_ns IS NULL OR o.start_ns < l.until_ns)
