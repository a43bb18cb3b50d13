/*
title    = "Live bytes before the first event"
question = "How many bytes were live when the recording began?"
source   = """stated by the source; else its stated end less the sum of all events; else the sum of
    what was released without an allocation"""
grain    = "process, device, allocator and kind of memory"
needs    = ["memory_event"]
optional = ["_lifetime", "memory_total"]
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
[columns.requested_bytes]
unit = "byte"
doc = "live bytes as requested"
[columns.reserved_bytes]
unit = "byte"
doc = "bytes that the allocator held; NULL when unknown"
[columns.unexplained_bytes]
unit = "byte"
doc = "live bytes of which no address is known"
*/
WITH
net AS (
    SELECT trace_id, process_id, device_id, allocator, memory_kind,
        coalesce(sum(CASE operation
            WHEN 'allocate' THEN coalesce(requested_bytes, bytes)
            WHEN 'free' THEN -coalesce(requested_bytes, bytes)
        END), 0) AS requested_bytes,
        sum(CASE
            WHEN operation IN ('segment_allocate', 'segment_map') THEN bytes
            WHEN operation IN ('segment_free', 'segment_unmap') THEN -bytes
        END) AS reserved_bytes,
        arg_min(sequence, sequence) FILTER (operation IN ('allocate', 'free')) AS first_sequence
    FROM memory_event
    GROUP BY ALL
),
older AS (
    SELECT trace_id, process_id, device_id, allocator, memory_kind,
        sum(requested_bytes) AS requested_bytes
    FROM _lifetime WHERE born_sequence IS NULL
    GROUP BY ALL
),
total AS (
    SELECT trace_id, process_id, device_id, allocator, memory_kind,
        any_value(requested_bytes) FILTER (sequence = -1) AS start_requested,
        any_value(reserved_bytes) FILTER (sequence = -1) AS start_reserved,
        any_value(requested_bytes) FILTER (sequence IS NULL) AS end_requested,
        any_value(reserved_bytes) FILTER (sequence IS NULL) AS end_reserved
    FROM memory_total
    GROUP BY ALL
)
SELECT n.trace_id, n.process_id, n.device_id, n.allocator, n.memory_kind,
    -- Releases prove bytes that a stated start can lack.
    greatest(coalesce(t.start_requested, t.end_requested - n.requested_bytes, 0),
        if(t.end_requested IS NULL, coalesce(o.requested_bytes, 0), 0))::BIGINT AS requested_bytes,
    coalesce(t.start_reserved, t.end_reserved - coalesce(n.reserved_bytes, 0))::BIGINT
        AS reserved_bytes,
    greatest(
        coalesce(t.start_requested, t.end_requested - n.requested_bytes, 0)
        - coalesce(o.requested_bytes, 0), 0
    )::BIGINT AS unexplained_bytes
FROM net AS n
LEFT JOIN older AS o
    ON o.trace_id = n.trace_id
    AND (o.process_id, o.device_id, o.allocator, o.memory_kind)
    IS NOT DISTINCT FROM (n.process_id, n.device_id, n.allocator, n.memory_kind)
LEFT JOIN total AS t
    ON t.trace_id = n.trace_id
    AND (t.process_id, t.device_id, t.allocator, t.memory_kind)
    IS NOT DISTINCT FROM (n.process_id, n.device_id, n.allocator, n.memory_kind)
