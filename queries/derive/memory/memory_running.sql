/*
title    = "Live bytes after each event"
question = "How many bytes were live at each event?"
grain    = "allocation, release, or change of what the allocator holds"
needs    = ["memory_event", "_memory_start"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for host memory"
[columns.allocator]
doc = "as memory_event.allocator"
[columns.memory_kind]
doc = "as memory_event.memory_kind"
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
    SELECT trace_id, process_id, device_id, allocator, memory_kind, sequence, timestamp_ns,
        CASE operation
            WHEN 'allocate' THEN coalesce(requested_bytes, bytes)
            WHEN 'free' THEN -coalesce(requested_bytes, bytes)
        END AS requested,
        CASE
            WHEN operation IN ('segment_allocate', 'segment_map') THEN bytes
            WHEN operation IN ('segment_free', 'segment_unmap') THEN -bytes
        END AS reserved
    FROM memory_event
    WHERE operation IN
        ('allocate', 'free', 'segment_allocate', 'segment_free', 'segment_map', 'segment_unmap')
)
SELECT c.trace_id, c.process_id, c.device_id, c.allocator, c.memory_kind, c.sequence,
    c.timestamp_ns,
    (s.requested_bytes + coalesce(sum(c.requested) OVER so_far, 0))::BIGINT AS requested_bytes,
    (s.reserved_bytes + coalesce(sum(c.reserved) OVER so_far, 0))::BIGINT AS reserved_bytes
FROM change AS c
JOIN _memory_start AS s
    ON s.trace_id = c.trace_id
    AND (s.process_id, s.device_id, s.allocator, s.memory_kind)
    IS NOT DISTINCT FROM (c.process_id, c.device_id, c.allocator, c.memory_kind)
WINDOW so_far AS (
    PARTITION BY c.trace_id, c.process_id, c.device_id, c.allocator, c.memory_kind
    ORDER BY c.sequence ROWS UNBOUNDED PRECEDING
)
