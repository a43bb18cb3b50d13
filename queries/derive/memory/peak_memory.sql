/*
title    = "Peaks of live bytes"
question = "At which event are most bytes live?"
source   = "first of equal peaks"
grain    = "memory space"
needs    = ["memory_running"]
optional = ["memory_space"]
returns = [
    "trace_id", "space", "requested_bytes", "sequence", "timestamp_ns", "reserved_bytes",
    "end_requested_bytes", "end_reserved_bytes",
]
[columns]
requested_bytes = "live bytes at the peak"
sequence = """event after which the peak is reached; NULL if the bytes before the recording are the
    peak"""
timestamp_ns = "time of that event; NULL if the file has no times"
reserved_bytes = "most bytes that the allocator held, at any time; NULL when unknown"
end_requested_bytes = "live bytes after the last event"
end_reserved_bytes = "bytes that the allocator held after the last event; NULL when unknown"
[advice]
missing = "needs allocations; {memory}"
*/
WITH highest AS (
    SELECT trace_id, space, max(requested_bytes) AS requested_bytes,
        max(reserved_bytes) AS reserved_bytes,
        arg_max(requested_bytes, sequence) AS end_requested_bytes,
        arg_max(reserved_bytes, sequence) AS end_reserved_bytes
    FROM memory_running
    GROUP BY trace_id, space
),
first_event AS (
    SELECT r.space, min(r.sequence) AS sequence,
        arg_min(r.timestamp_ns, r.sequence) AS timestamp_ns
    FROM memory_running AS r
    JOIN highest AS h ON h.space = r.space AND h.requested_bytes = r.requested_bytes
    GROUP BY r.space
)
SELECT h.trace_id, h.space,
    greatest(h.requested_bytes, s.start_requested_bytes) AS requested_bytes,
    if(h.requested_bytes > s.start_requested_bytes, f.sequence, NULL) AS sequence,
    if(h.requested_bytes > s.start_requested_bytes, f.timestamp_ns, NULL) AS timestamp_ns,
    greatest(h.reserved_bytes, s.start_reserved_bytes) AS reserved_bytes,
    h.end_requested_bytes, h.end_reserved_bytes
FROM highest AS h
JOIN first_event AS f USING (space)
JOIN memory_space AS s USING (space)
