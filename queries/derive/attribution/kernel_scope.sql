/*
title    = "Scope of each kernel"
question = "Which launch, range, layer, phase and iteration does each kernel belong to?"
grain    = "kernel execution with a time"
needs    = ["op_scope"]
optional = ["_innermost_range"]
[columns.trace_id]
doc = "the trace"
[columns.kernel_id]
doc = "the kernel"
[columns.api_call_id]
doc = "launching call; NULL if the trace does not contain it"
[columns.thread_id]
doc = "thread that launched the kernel"
[columns.launch_start_ns]
unit = "ns"
doc = "start of the launching call"
[columns.launch_end_ns]
unit = "ns"
doc = "end of the launching call"
[columns.annotation_id]
doc = "innermost range around the launch; annotation_path contains its path"
[columns.layer]
doc = "layer that owns the kernel; NULL when unknown"
[columns.layer_evidence]
doc = "nvtx, torch module, torch op, …, sequence (_launch_scope)"
[columns.phase]
doc = "data, forward, loss, backward, optimizer or communication; NULL when unknown"
[columns.iteration]
doc = "number of the iteration; NULL outside iterations"
[columns.evidence]
doc = "how the iteration was found: nvtx, torch range, time, anchor kernel; NULL outside of them"
*/
SELECT o.trace_id, o.op_id AS kernel_id, o.api_call_id, o.thread_id, o.launch_start_ns,
    o.launch_end_ns, i.annotation_id, o.layer, o.layer_evidence, o.phase, o.iteration, o.evidence
FROM op_scope o
LEFT JOIN _innermost_range i USING (trace_id, api_call_id)
WHERE o.op_kind = 'kernel'
