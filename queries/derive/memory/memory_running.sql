/*
title    = "Live bytes after each event"
question = "How many bytes were live at each event?"
grain    = "allocation, release, or change of what the allocator holds"
needs    = ["_memory_op", "memory_space"]
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.sequence]
doc = "position of the event"
[columns.timestamp_ns]
unit = "ns"
doc = "time, trace clock; NULL if the file has no times"
[columns.requested_bytes]
unit = "byte"
doc = "live bytes after the event, as requested"
[columns.reserved_bytes]
unit = "byte"
doc = "bytes that the allocator holds after the event; NULL when unknown"
*/
WITH change AS (
    SELECT trace_id, space, sequence, timestamp_ns,
        CASE operation WHEN 'allocate' THEN bytes WHEN 'free' THEN -bytes END AS requested,
        CASE
            WHEN operation IN ('segment_allocate', 'segment_map') THEN bytes
            WHEN operation IN ('segment_free', 'segment_unmap') THEN -bytes
        END AS reserved
    FROM _memory_op
    WHERE operation IN
        ('allocate', 'free', 'segment_allocate', 'segment_free', 'segment_map', 'segment_unmap')
)
SELECT c.trace_id, c.space, c.sequence, c.timestamp_ns,
    (s.start_requested_bytes + coalesce(sum(c.requested) OVER so_far, 0))::BIGINT
        AS requested_bytes,
    (s.start_reserved_bytes + coalesce(sum(c.reserved) OVER so_far, 0))::BIGINT
        AS reserved_bytes
FROM change AS c
JOIN memory_space AS s USING (trace_id, space)
WINDOW so_far AS (
    PARTITION BY c.trace_id, c.space ORDER BY c.sequence ROWS UNBOUNDED PRECEDING
)
