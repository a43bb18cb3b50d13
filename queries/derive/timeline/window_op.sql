/*
title    = "GPU operations in the analysis window"
question = "Which GPU operations are included in metrics?"
grain    = "GPU operation launched in the analysis window of its process"
needs    = ["op_scope", "analysis_window", "host_window"]
[columns.trace_id]
doc = "the trace"
[columns.op_kind]
doc = "kernel, memcpy, memset or graph"
[columns.op_id]
doc = "the operation"
[columns.start_ns]
unit = "ns"
doc = "start on the GPU"
[columns.end_ns]
unit = "ns"
doc = "end on the GPU"
[columns.duration_ns]
unit = "ns"
doc = "end - start"
[columns.process_id]
doc = "key of the process"
[columns.device_id]
doc = "device"
[columns.stream_id]
doc = "CUDA stream"
[columns.name]
doc = "kernel name, or kind of operation"
[columns.bytes]
unit = "byte"
doc = "bytes copied or filled"
[columns.thread_id]
doc = "thread that launched the operation"
[columns.layer]
doc = "layer of the operation; NULL when unknown"
[columns.layer_evidence]
doc = "how the layer was found (_launch_scope)"
[columns.phase]
doc = "data, forward, loss, backward, optimizer or communication; NULL when unknown"
[columns.iteration]
doc = "number of the iteration; NULL outside iterations"
[columns.evidence]
doc = "how the iteration was found (op_scope)"
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
