/*
title    = "Live bytes after each event"
question = "How many bytes were live at each event?"
grain    = "allocation, release, or change of what the allocator holds"
needs    = ["_memory_op", "memory_space"]
optional = ["_lifetime"]
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
WITH
-- An allocation at an address that is still in use ends the earlier lifetime, too.
ended AS (
    SELECT trace_id, space, died_sequence AS sequence, requested_bytes
    FROM _lifetime WHERE died_sequence IS NOT NULL
),
change AS (
    SELECT o.trace_id, o.space, o.sequence, o.timestamp_ns,
        CASE
            WHEN o.operation = 'allocate' THEN o.bytes - coalesce(e.requested_bytes, 0)
            WHEN o.operation = 'free' THEN -e.requested_bytes
        END AS requested,
        CASE
            WHEN o.operation IN ('segment_allocate', 'segment_map') THEN o.bytes
            WHEN o.operation IN ('segment_free', 'segment_unmap') THEN -o.bytes
        END AS reserved
    FROM _memory_op AS o
    LEFT JOIN ended AS e USING (trace_id, space, sequence)
    WHERE o.operation IN
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
