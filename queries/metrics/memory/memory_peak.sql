/*
title    = "Peak of memory"
question = "How much memory was live at most, and when?"
source   = """running sum of all allocations and completed releases, in the order of the file; the
    first of equal peaks counts"""
grain    = "process, device, allocator and kind of memory"
needs    = ["memory_running"]
optional = ["_lifetime", "_memory_start"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for host memory"
[columns.allocator]
doc = """whose allocations: cuda (driver; segments of a framework), torch, tf_bfc, mxnet, xla
    (tensors and scratch memory)"""
[columns.memory_kind]
doc = "kind of memory, as recorded by a profiler of CUDA; NULL otherwise"
[columns.peak_requested_bytes]
unit = "byte"
doc = "live bytes at the peak, as requested by the program"
[columns.peak_reserved_bytes]
unit = "byte"
doc = """most bytes that the allocator held (at any time); NULL when unknown, or below the live
    bytes, because events of segments are missing"""
[columns.peak_sequence]
doc = "event after which the peak is reached; NULL if the bytes before the recording are the peak"
[columns.peak_ns]
unit = "ns"
doc = "time of that event, trace clock; NULL if the file has no times"
[columns.start_requested_bytes]
unit = "byte"
doc = "live bytes before the first event"
[columns.end_requested_bytes]
unit = "byte"
doc = "live bytes after the last event"
[columns.end_reserved_bytes]
unit = "byte"
doc = "bytes that the allocator held after the last event; NULL when unknown"
[columns.allocations]
doc = "recorded allocations"
[columns.unmatched_frees]
doc = "releases of memory whose allocation was not recorded"
[columns.reason]
doc = "why the peak of reserved bytes is NULL"
[plot]
kind = "barh"
x = ["device_id", "allocator", "memory_kind"]
y = [["peak_requested_bytes", "start_requested_bytes", "end_requested_bytes"]]
*/
WITH
peak AS (
    SELECT trace_id, process_id, device_id, allocator, memory_kind,
        max(requested_bytes) AS peak_bytes,
        -- arg_max would return any of several equal maxima.
        min_by(sequence, (-requested_bytes, sequence)) AS peak_sequence,
        min_by(timestamp_ns, (-requested_bytes, sequence)) AS peak_ns,
        max(reserved_bytes) AS peak_reserved,
        max_by(requested_bytes, sequence) AS end_bytes,
        max_by(reserved_bytes, sequence) AS end_reserved
    FROM memory_running
    GROUP BY ALL
),
counted AS (
    SELECT trace_id, process_id, device_id, allocator, memory_kind,
        count(born_sequence) AS allocations,
        count(died_sequence) FILTER (born_sequence IS NULL) AS unmatched_frees
    FROM _lifetime
    GROUP BY ALL
),
joined AS (
    SELECT p.*, s.requested_bytes AS start_bytes, s.reserved_bytes AS start_reserved,
        c.allocations, c.unmatched_frees,
        p.peak_bytes > s.requested_bytes AS has_grown,
        greatest(p.peak_bytes, s.requested_bytes) AS top_bytes,
        greatest(p.peak_reserved, s.reserved_bytes) AS top_reserved
    FROM peak AS p
    JOIN _memory_start AS s
        ON s.trace_id = p.trace_id
        AND (s.process_id, s.device_id, s.allocator, s.memory_kind)
        IS NOT DISTINCT FROM (p.process_id, p.device_id, p.allocator, p.memory_kind)
    LEFT JOIN counted AS c
        ON c.trace_id = p.trace_id
        AND (c.process_id, c.device_id, c.allocator, c.memory_kind)
        IS NOT DISTINCT FROM (p.process_id, p.device_id, p.allocator, p.memory_kind)
)
SELECT trace_id, process_id, device_id, allocator, memory_kind,
    top_bytes AS peak_requested_bytes,
    if(top_reserved >= top_bytes, top_reserved, NULL) AS peak_reserved_bytes,
    if(has_grown, peak_sequence, NULL) AS peak_sequence,
    if(has_grown, peak_ns, NULL) AS peak_ns,
    start_bytes AS start_requested_bytes,
    end_bytes AS end_requested_bytes,
    if(end_reserved >= end_bytes, end_reserved, NULL) AS end_reserved_bytes,
    coalesce(allocations, 0) AS allocations,
    coalesce(unmatched_frees, 0) AS unmatched_frees,
    CASE
        WHEN allocator = 'cuda' THEN 'the driver''s allocations are not divided further'
        WHEN top_reserved IS NULL THEN 'the file does not record what the allocator held'
        WHEN top_reserved < top_bytes
            THEN 'segments hold less than the live bytes: their events are missing'
    END AS reason
FROM joined
ORDER BY trace_id, peak_requested_bytes DESC, process_id, device_id, allocator, memory_kind
