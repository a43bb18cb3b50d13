/*
title    = "GPU operations in the analysis window"
question = "Which GPU operations are included in metrics?"
grain    = "GPU operation launched in the analysis window of its process"
needs    = ["op_scope", "analysis_window", "host_window"]
returns = [
    "trace_id", "op_kind", "op_id", "start_ns", "end_ns", "duration_ns", "process_id", "device_id",
    "stream_id", "name", "bytes", "thread_id", "layer", "layer_evidence", "phase", "iteration",
    "evidence",
]
[columns]
layer = "layer of the operation; NULL when unknown"
layer_evidence = "how the layer was found (_launch_scope)"
evidence = "how the iteration was found (op_scope)"
*/
SELECT o.trace_id, o.op_kind, o.op_id, o.start_ns, o.end_ns, o.duration_ns, o.process_id,
    o.device_id, o.stream_id, o.name, o.bytes, o.thread_id, o.layer,
    o.layer_evidence, o.phase, o.iteration, o.evidence
FROM op_scope o
JOIN analysis_window w
    ON  w.trace_id = o.trace_id AND w.process_id IS NOT DISTINCT FROM o.process_id
    AND w.device_id IS NOT DISTINCT FROM o.device_id
WHERE w.first_iteration IS NULL
   OR EXISTS (
       SELECT 1 FROM host_window h
       WHERE h.trace_id = o.trace_id AND h.process_id IS NOT DISTINCT FROM o.process_id
         AND h.iteration = o.iteration)
