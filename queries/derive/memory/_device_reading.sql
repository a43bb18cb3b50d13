/*
title    = "Readings of device memory"
question = "How many bytes of a device were in use, and how many did the allocators hold then?"
source   = """allocators whose held bytes are known: the last value before a reading, else the
    final one"""
grain    = "reading of a device"
needs    = ["memory_device"]
optional = ["memory_running", "memory_space", "memory_total"]
returns = [
    "trace_id", "device_id", "timestamp_ns", "used_bytes", "total_bytes", "reserved_bytes",
    "untracked_bytes",
]
[columns]
timestamp_ns = "time of the reading; NULL when unknown"
used_bytes = "bytes in use on the device, by all processes"
total_bytes = "capacity of the device; NULL when unknown"
reserved_bytes = "bytes that allocators of this trace held then; NULL when unknown"
untracked_bytes = "bytes in use less these; NULL when unknown"
*/
WITH
reserved AS (
    SELECT r.trace_id, s.device_id, r.space, r.timestamp_ns,
        arg_max(r.reserved_bytes, r.sequence) AS reserved_bytes
    FROM memory_running AS r
    JOIN memory_space AS s USING (space)
    WHERE r.reserved_bytes IS NOT NULL AND r.timestamp_ns IS NOT NULL
    GROUP BY r.trace_id, s.device_id, r.space, r.timestamp_ns
),
reading AS (
    SELECT *, row_number() OVER () AS reading_id FROM memory_device
),
asked AS (
    SELECT d.reading_id, s.space, d.timestamp_ns
    FROM reading AS d
    JOIN (SELECT DISTINCT trace_id, device_id, space FROM reserved) AS s
        ON s.trace_id = d.trace_id AND s.device_id = d.device_id
),
-- Each allocator has its own events: sum the last value of each.
then_held AS (
    SELECT a.reading_id, sum(h.reserved_bytes) AS reserved_bytes
    FROM asked AS a
    ASOF JOIN reserved AS h ON h.space = a.space AND a.timestamp_ns >= h.timestamp_ns
    GROUP BY a.reading_id
),
final AS (
    SELECT trace_id, device_id, sum(reserved_bytes) AS reserved_bytes
    FROM memory_total WHERE sequence IS NULL GROUP BY trace_id, device_id
),
known AS (
    SELECT d.* REPLACE (
            -- Read with the device, else recorded or modelled.
            coalesce(d.reserved_bytes, h.reserved_bytes, f.reserved_bytes)::BIGINT
                AS reserved_bytes)
    FROM reading AS d
    LEFT JOIN then_held AS h USING (reading_id)
    LEFT JOIN final AS f ON f.trace_id = d.trace_id AND f.device_id = d.device_id
)
SELECT trace_id, device_id, timestamp_ns, used_bytes, total_bytes, reserved_bytes,
    -- greatest() alone would replace NULL by 0.
    CASE WHEN used_bytes IS NOT NULL AND reserved_bytes IS NOT NULL
        THEN greatest(used_bytes - reserved_bytes, 0) END AS untracked_bytes
FROM known
