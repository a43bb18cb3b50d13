/*
title    = "Live bytes after each event"
question = "How many bytes were live at each event?"
grain    = "allocation, release, or change of what the allocator holds"
needs    = ["memory_event", "memory_space"]
optional = ["_memory_change"]
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
[advice]
missing = """
needs allocations; record them with `torch.cuda.memory._record_memory_history()` and
`_dump_snapshot(FILE)`, `tbd-trace collect --memory`, or `nsys profile --cuda-memory-usage=true`"""
*/
WITH change AS (
    SELECT trace_id, space, sequence, timestamp_ns,
        if(is_allocation, bytes, 0) - coalesce(ended_bytes, 0) AS requested, 0 AS reserved
    FROM _memory_change
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
