/*
title    = "Peak of memory"
question = "How much memory was live at most, and when?"
source   = """running sum of all allocations and completed releases, in the order of the file; the
    first of equal peaks counts"""
grain    = "process, device, allocator and kind of memory"
needs    = ["peak_memory"]
optional = ["memory_space"]
reduce   = "concat"
returns = [
    "trace_id", "process_id", "device_id", "allocator", "memory_kind", "peak_requested_bytes",
    "peak_reserved_bytes", "peak_sequence", "peak_ns", "start_requested_bytes",
    "end_requested_bytes", "end_reserved_bytes", "allocations", "unmatched_frees", "reason",
]
[columns]
allocator = """whose allocations: cuda (driver; segments of a framework), torch, tf_bfc, mxnet, xla
    (tensors and scratch memory)"""
memory_kind = "kind of memory, as recorded by a profiler of CUDA; NULL otherwise"
peak_requested_bytes = "live bytes at the peak, as requested by the program"
peak_reserved_bytes = """most bytes that the allocator held (at any time); NULL when unknown, or
    below the live bytes, because events of segments are missing"""
peak_sequence = """event after which the peak is reached; NULL if the bytes before the recording are
    the peak"""
peak_ns = "time of that event, trace clock; NULL if the file has no times"
start_requested_bytes = "live bytes before the first event"
reason = "why the peak of reserved bytes is NULL"
[plot]
kind = "barh"
x = ["device_id", "allocator", "memory_kind"]
y = [["peak_requested_bytes", "start_requested_bytes", "end_requested_bytes"]]
*/
SELECT p.trace_id, s.process_id, s.device_id, s.allocator, s.memory_kind,
    p.requested_bytes AS peak_requested_bytes,
    if(p.reserved_bytes >= p.requested_bytes, p.reserved_bytes, NULL) AS peak_reserved_bytes,
    p.sequence AS peak_sequence,
    p.timestamp_ns AS peak_ns,
    s.start_requested_bytes,
    p.end_requested_bytes,
    if(p.end_reserved_bytes >= p.end_requested_bytes, p.end_reserved_bytes, NULL)
        AS end_reserved_bytes,
    s.allocations, s.unmatched_frees,
    CASE
        WHEN p.reserved_bytes >= p.requested_bytes THEN NULL
        WHEN s.allocator = 'cuda' THEN 'the driver''s allocations are not divided further'
        WHEN p.reserved_bytes IS NULL THEN 'the file does not record what the allocator held'
        ELSE 'segments hold less than the live bytes: their events are missing'
    END AS reason
FROM peak_memory AS p
JOIN memory_space AS s USING (space)
ORDER BY p.trace_id, peak_requested_bytes DESC, s.process_id, s.device_id, s.allocator,
    s.memory_kind
