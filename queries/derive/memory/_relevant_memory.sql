/*
title    = "Memory spaces that checks evaluate"
question = "Which memory spaces of a trace matter, and do they show training?"
source   = "spaces whose peak is at least a tenth of the highest peak of the trace"
grain    = "memory space"
needs    = ["peak_memory", "memory_space"]
optional = ["allocation", "_memory_phase"]
returns = [
    "trace_id", "space", "process_id", "device_id", "allocator", "label", "peak_bytes",
    "peak_sequence", "peak_reserved_bytes", "peak_phase", "peak_during", "has_backward",
    "has_optimizer", "why_unknown",
]
[columns]
label = "beginning of a sentence about the space; empty if the trace has one space"
peak_bytes = "live bytes at the peak, as requested"
peak_sequence = """event after which the peak is reached; -1 if the bytes before the recording are
    the peak"""
peak_reserved_bytes = """most bytes that the allocator held; NULL when unknown, or below the live
    bytes, because events of segments are missing"""
peak_phase = "phase of training at the peak; NULL when unknown"
peak_during = "end of a phrase that names the phase at the peak; empty when unknown"
has_backward = "true if a backward pass was recorded"
has_optimizer = "true if an optimizer step was recorded"
why_unknown = "why classes are unknown; NULL if they can be known"
*/
WITH
evaluated AS (
    FROM peak_memory
    QUALIFY 10 * requested_bytes >= max(requested_bytes) OVER (PARTITION BY trace_id)
        AND requested_bytes > 0
),
shown AS (
    SELECT space,
        bool_or(phase IN ('backward', 'recompute') OR class = 'weight_gradient') AS has_backward,
        bool_or(phase = 'optimizer' OR class = 'optimizer_temporary') AS has_optimizer
    FROM allocation GROUP BY space
),
in_phase AS (
    SELECT j.space, r.phase
    FROM evaluated AS j
    ASOF JOIN _memory_phase AS r ON r.space = j.space AND j.sequence >= r.first_sequence
)
SELECT j.trace_id, j.space, s.process_id, s.device_id, s.allocator,
    if(
        count(*) OVER (PARTITION BY j.trace_id) = 1, '',
        concat_ws(
            ', ', coalesce('device ' || s.device_id, 'host memory'), s.allocator,
            s.memory_kind, 'process ' || s.process_id
        ) || ': '
    ) AS label,
    j.requested_bytes AS peak_bytes, coalesce(j.sequence, -1) AS peak_sequence,
    if(j.reserved_bytes >= j.requested_bytes, j.reserved_bytes, NULL) AS peak_reserved_bytes,
    p.phase AS peak_phase,
    CASE p.phase
        WHEN 'forward' THEN ' in the forward pass'
        WHEN 'backward' THEN ' in the backward pass'
        WHEN 'optimizer' THEN ' in the optimizer step'
        ELSE ''
    END AS peak_during,
    coalesce(h.has_backward, false) AS has_backward,
    coalesce(h.has_optimizer, false) AS has_optimizer,
    if(
        s.allocator = 'cuda',
        'the trace records memory that the driver gives to the framework, not its tensors', NULL
    ) AS why_unknown
FROM evaluated AS j
JOIN memory_space AS s USING (space)
LEFT JOIN shown AS h USING (space)
LEFT JOIN in_phase AS p USING (space)
