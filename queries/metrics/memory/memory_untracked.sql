/*
title    = "Memory outside the allocator"
question = "How much device memory is in use that the framework's allocator does not hold?"
source   = "bytes in use on the device less bytes that the allocator holds: CUDA context, libraries"
grain    = "reading of a device"
needs    = ["memory_device"]
optional = ["memory_running", "memory_space", "memory_total"]
[columns.trace_id]
doc = "the trace"
[columns.device_id]
doc = "device"
[columns.timestamp_ns]
unit = "ns"
doc = "time of the reading; NULL when unknown"
[columns.used_bytes]
unit = "byte"
doc = "bytes in use on the device, by all processes"
[columns.total_bytes]
unit = "byte"
doc = "capacity of the device; NULL when unknown"
[columns.reserved_bytes]
unit = "byte"
doc = """bytes that allocators of this trace held then, as read with the device, else as recorded
    or modelled; NULL when unknown"""
[columns.untracked_bytes]
unit = "byte"
doc = "bytes in use less these; NULL when unknown"
[columns.untracked_pct]
unit = "%"
doc = "part of the bytes in use"
[plot]
kind = "line"
x    = "timestamp_ns"
y    = ["used_bytes", "reserved_bytes", "untracked_bytes"]
*/
WITH
held AS (
    SELECT r.trace_id, s.device_id, r.timestamp_ns, sum(r.reserved_bytes) AS reserved_bytes
    FROM memory_running AS r
    JOIN memory_space AS s USING (space)
    WHERE r.reserved_bytes IS NOT NULL AND r.timestamp_ns IS NOT NULL
    GROUP BY ALL
),
final AS (
    SELECT trace_id, device_id, sum(reserved_bytes) AS reserved_bytes
    FROM memory_total WHERE sequence IS NULL GROUP BY trace_id, device_id
),
reading AS (
    SELECT d.trace_id, d.device_id, d.timestamp_ns, d.used_bytes, d.total_bytes,
        coalesce(d.reserved_bytes, h.reserved_bytes, f.reserved_bytes)::BIGINT AS reserved_bytes
    FROM memory_device AS d
    ASOF LEFT JOIN held AS h
        ON h.trace_id = d.trace_id AND h.device_id = d.device_id
        AND d.timestamp_ns >= h.timestamp_ns
    LEFT JOIN final AS f ON f.trace_id = d.trace_id AND f.device_id = d.device_id
)
SELECT *, greatest(used_bytes - reserved_bytes, 0) AS untracked_bytes,
    100 * greatest(used_bytes - reserved_bytes, 0) / nullif(used_bytes, 0) AS untracked_pct
FROM reading
ORDER BY trace_id, device_id, timestamp_ns
