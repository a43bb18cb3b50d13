/*
title    = "Waits for a compiler"
question = "When did the launching thread compile kernels, or wait until they were compiled?"
source   = """pauses of the host in ranges that are named after a compiler of kernels: NVRTC,
    nvFuser, Triton, TorchInductor, TorchDynamo, XLA"""
grain    = "part of the pause before a CUDA call"
needs    = ["host_chain"]
optional = ["annotation_range"]
returns = ["trace_id", "process_id", "position", "start_ns", "end_ns"]
[columns]
position = "host_chain.position of the call after the pause"
*/
WITH
compiling AS MATERIALIZED (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, thread_id, start_ns, end_ns
    FROM annotation_range
    WHERE regexp_matches(text, '(?i)nvrtc|fusion.*compile|kernelexecutor::compile'
        || '|triton.*compil|async_compile|compile_fx|convert_frame|xla.*compil')
),
-- Of ranges inside one another, the outermost counts.
outer_range AS (
    SELECT * FROM compiling
    QUALIFY end_ns > coalesce(max(end_ns) OVER (
        PARTITION BY trace_id, process_id, thread_id ORDER BY start_ns, end_ns DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)
)
SELECT h.trace_id, h.process_id, h.position,
    greatest(h.start_ns - h.think_ns, c.start_ns) AS start_ns, least(h.start_ns, c.end_ns) AS end_ns
FROM host_chain h
JOIN outer_range c
    ON  c.trace_id = h.trace_id AND c.process_id = h.process_id AND c.thread_id = h.thread_id
    AND h.start_ns > c.start_ns AND h.start_ns - h.think_ns < c.end_ns
-- Shorter ones look up kernels that are compiled already.
WHERE least(h.start_ns, c.end_ns) - greatest(h.start_ns - h.think_ns, c.start_ns) > 100000
ORDER BY h.trace_id, h.process_id, h.position, start_ns
