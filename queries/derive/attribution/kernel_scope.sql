/*
title    = "Scope of each kernel"
question = "Which launch, range, layer, phase and iteration does each kernel belong to?"
grain    = "kernel execution with a time"
needs    = ["op_scope"]
optional = ["_innermost_range"]
returns = [
    "trace_id", "kernel_id", "api_call_id", "thread_id", "launch_start_ns", "launch_end_ns",
    "annotation_id", "layer", "layer_evidence", "phase", "iteration", "evidence",
]
[columns]
kernel_id = "the kernel"
thread_id = "thread that launched the kernel"
annotation_id = "innermost range around the launch; annotation_path contains its path"
layer = "layer that owns the kernel; NULL when unknown"
*/
SELECT o.trace_id, o.op_id AS kernel_id, o.api_call_id, o.thread_id, o.launch_start_ns,
    o.launch_end_ns, i.annotation_id, o.layer, o.layer_evidence, o.phase, o.iteration, o.evidence
FROM op_scope o
LEFT JOIN _innermost_range i USING (trace_id, api_call_id)
WHERE o.op_kind = 'kernel'
