/*
title    = "Scope of each GPU operation"
question = "Which launch, layer, phase and iteration does each GPU operation belong to?"
grain    = "GPU operation"
needs    = ["gpu_op"]
optional = ["op_launch", "_launch_scope", "_iteration_boundary"]
returns = [
    "trace_id", "op_kind", "op_id", "start_ns", "end_ns", "duration_ns", "process_id", "device_id",
    "stream_id", "name", "bytes", "api_call_id", "thread_id", "launch_start_ns", "launch_end_ns",
    "layer", "layer_evidence", "phase", "iteration", "evidence",
]
[columns]
op_kind = "kernel, memcpy, memset or graph"
op_id = "the operation"
start_ns = "start on the GPU"
process_id = "key of the process"
name = "kernel name, or kind of operation"
bytes = {unit = "byte", doc = "bytes copied or filled"}
api_call_id = "launching call; NULL if the trace does not contain it"
thread_id = "thread that launched the operation"
launch_start_ns = "start of the launching call"
launch_end_ns = "end of the launching call"
layer = "layer that owns the operation; NULL when unknown"
layer_evidence = "nvtx, torch module, torch op, …, sequence (_launch_scope)"
evidence = """how the iteration was found: nvtx, torch range, time, anchor kernel; NULL outside of
    them"""
*/
WITH
-- If many launches are not recorded, iterations are assigned by GPU time.
unlaunched AS (
    SELECT o.trace_id, o.op_kind, o.op_id, p.iteration
    FROM gpu_op o
    ASOF JOIN (FROM _iteration_boundary WHERE is_gpu_time) p
        ON  p.trace_id = o.trace_id AND p.process_id IS NOT DISTINCT FROM o.process_id
        AND o.start_ns >= p.start_ns
    WHERE o.start_ns < p.end_ns
),
-- Enumerations instead of text: the join takes half the time and does not spill.
scope AS (
    SELECT * REPLACE (
        CAST(layer_evidence AS ENUM(
            'nvtx', 'nvtx backward', 'torch module', 'torch module backward', 'torch op',
            'torch op backward', 'torch range', 'torch range backward', 'sequence'
        )) AS layer_evidence,
        CAST(phase AS ENUM('data', 'forward', 'loss', 'backward', 'optimizer', 'communication'))
            AS phase,
        CAST(evidence AS ENUM('nvtx', 'torch range', 'time', 'anchor kernel')) AS evidence)
    FROM _launch_scope
)
SELECT o.trace_id, o.op_kind, o.op_id, o.start_ns, o.end_ns, o.duration_ns, o.process_id,
    o.device_id, o.stream_id, o.name, o.bytes,
    c.api_call_id, c.thread_id, c.launch_start_ns, c.launch_end_ns,
    s.layer, s.layer_evidence::VARCHAR AS layer_evidence, s.phase::VARCHAR AS phase,
    coalesce(s.iteration, u.iteration) AS iteration,
    CASE WHEN u.iteration IS NOT NULL THEN 'anchor kernel' ELSE s.evidence::VARCHAR END AS evidence
FROM gpu_op o
LEFT JOIN op_launch c USING (trace_id, op_kind, op_id)
LEFT JOIN scope s ON s.trace_id = c.trace_id AND s.api_call_id = c.api_call_id
LEFT JOIN unlaunched u
    ON u.trace_id = o.trace_id AND u.op_kind = o.op_kind AND u.op_id = o.op_id
