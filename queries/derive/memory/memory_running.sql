/*
title    = "Live bytes after each event"
question = "How many bytes were live at each event?"
grain    = "allocation, release, or change of what the allocator holds"
needs    = ["memory_event", "memory_space"]
optional = ["_memory_change", "memory_total"]
at_ingest = "memory_event"
returns = ["trace_id", "space", "sequence", "timestamp_ns", "requested_bytes", "reserved_bytes"]
[columns]
sequence = "position of the event"
requested_bytes = "live bytes after the event, as requested"
reserved_bytes = "bytes that the allocator holds after the event; NULL when unknown"
[advice]
missing = "needs allocations; {memory}"
*/
WITH
-- Bytes that the allocator holds, where a source or a model states them beside events.
stated AS (
    SELECT space, sequence,
        reserved_bytes - lag(reserved_bytes, 1, reserved_bytes) OVER (
            PARTITION BY space ORDER BY sequence
        ) AS reserved
    FROM (
        SELECT hash(trace_id, process_id, device_id, allocator, memory_kind) AS space, sequence,
            reserved_bytes
        FROM memory_total WHERE sequence IS NOT NULL AND reserved_bytes IS NOT NULL
    )
),
change AS (
    SELECT c.trace_id, c.space, c.sequence, c.timestamp_ns,
        if(c.is_allocation, c.bytes, 0) - coalesce(c.ended_bytes, 0) AS requested,
        coalesce(s.reserved, 0) AS reserved
    FROM _memory_change AS c
    LEFT JOIN stated AS s ON s.space = c.space AND s.sequence = c.sequence
    UNION ALL
    SELECT trace_id, hash(trace_id, process_id, device_id, allocator, memory_kind), sequence,
        timestamp_ns, 0,
        if(operation IN ('segment_allocate', 'segment_map'), bytes, -bytes)
    FROM memory_event
    WHERE operation IN ('segment_allocate', 'segment_free', 'segment_map', 'segment_unmap')
)
SELECT c.trace_id, c.space, c.sequence, c.timestamp_ns,
    (s.start_requested_bytes + sum(c.requested) OVER so_far)::BIGINT AS requested_bytes,
    (s.start_reserved_bytes + sum(c.reserved) OVER so_far)::BIGINT AS reserved_bytes
FROM change AS c
JOIN memory_space AS s USING (space)
WINDOW so_far AS (PARTITION BY c.space ORDER BY c.sequence ROWS UNBOUNDED PRECEDING)
