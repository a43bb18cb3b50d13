/*
title    = "Peak of memory"
question = "How much memory was live at most, and when?"
source   = """running sum of all allocations and completed releases, in the order of the file; the
    first of equal peaks counts"""
grain    = "process, device, allocator and kind of memory"
needs    = ["peak_memory"]
optional = ["memory_space"]
reduce   = "concat"
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
