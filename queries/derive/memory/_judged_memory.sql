/*
title    = "Memory spaces that checks judge"
question = "Which memory spaces of a trace matter, and do they show training?"
source   = "spaces whose peak is at least a tenth of the highest peak of the trace"
grain    = "memory space"
needs    = ["peak_memory", "memory_space"]
optional = ["allocation", "_memory_phase"]
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for host memory"
[columns.allocator]
doc = "as memory_event.allocator"
[columns.label]
doc = "beginning of a sentence about the space; empty if the trace has one space"
[columns.peak_bytes]
unit = "byte"
doc = "live bytes at the peak, as requested"
[columns.peak_sequence]
doc = "event after which the peak is reached; -1 if the bytes before the recording are the peak"
[columns.peak_reserved_bytes]
unit = "byte"
doc = """most bytes that the allocator held; NULL when unknown, or below the live bytes, because
    events of segments are missing"""
[columns.peak_phase]
doc = "phase of training at the peak; NULL when unknown"
[columns.peak_during]
doc = "end of a phrase that names the phase at the peak; empty when unknown"
[columns.has_backward]
doc = "true if a backward pass was recorded"
[columns.has_optimizer]
doc = "true if an optimizer step was recorded"
[columns.why_unknown]
doc = "why classes are unknown; NULL if they can be known"
*/
WITH
judged AS (
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
    FROM judged AS j
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
FROM judged AS j
JOIN memory_space AS s USING (space)
LEFT JOIN shown AS h USING (space)
LEFT JOIN in_phase AS p USING (space)
