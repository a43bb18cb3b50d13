/*
title    = "Links measured by nccl-tests"
question = "What latency and bandwidth did each test of nccl-tests find?"
source   = """bytes and time of each message size; factors of the bus bandwidth as in nccl-tests
    (PERFORMANCE.md)"""
grain    = "collective, ranks, type, operation and placement of a log"
needs    = ["link_sample", "collectives"]
returns = [
    "trace_id", "kind", "ranks", "nodes", "device_name", "dtype", "operation", "placement", "sizes",
    "smallest_bytes", "largest_bytes", "latency_ns", "peak_busbw_bytes_per_s", "peak_bytes",
    "half_bandwidth_bytes", "is_saturated", "evidence",
]
[columns]
trace_id = "the log"
device_name = "GPU model; NULL when unknown"
operation = "reduction; NULL for other collectives"
sizes = "message sizes"
smallest_bytes = "smallest message"
largest_bytes = "largest message"
latency_ns = "time of the smallest message; NULL if it is above 4 KiB"
peak_busbw_bytes_per_s = "largest bus bandwidth of all sizes"
peak_bytes = "message size with the largest bus bandwidth"
half_bandwidth_bytes = """message size with half of it, by interpolation between sizes; NULL if the
    smallest message reaches half"""
is_saturated = """true if the bus bandwidth of the largest size is within 5 % of that of the next
    smaller one or below it; NULL with one size"""
evidence = """computed: from bytes, time and ranks; printed: by nccl-tests, where kind or ranks are
    unknown"""
[advice]
missing = "needs measurements of the link; {link}"
*/
WITH
factor AS (
    SELECT kind, any_value(ring_steps) AS ring_steps, any_value(bus_factor) AS bus_factor
    FROM collectives GROUP BY kind
),
sample AS (
    SELECT s.*, coalesce(f.bus_factor, f.ring_steps * (s.ranks - 1) / s.ranks) AS factor,
        CASE WHEN factor IS NULL THEN s.busbw_bytes_per_s
             ELSE 1e9 * s.bytes / nullif(s.time_ns, 0) * factor END AS busbw
    FROM link_sample s LEFT JOIN factor f ON f.kind = s.kind
    WHERE s.bytes > 0
),
-- A size can be measured several times.
size AS (
    SELECT trace_id, kind, ranks, nodes, device_name, dtype, operation, placement, bytes,
        median(time_ns) AS time_ns, median(busbw) AS busbw,
        CASE WHEN any_value(factor) IS NULL THEN 'printed' ELSE 'computed' END AS evidence
    FROM sample GROUP BY ALL
),
curve AS (
    SELECT *, lag(bytes) OVER test AS smaller_bytes, lag(busbw) OVER test AS smaller_busbw,
        max(busbw) OVER whole AS peak
    FROM size
    WINDOW
        test AS (PARTITION BY trace_id, kind, ranks, nodes, device_name, dtype, operation, placement
            ORDER BY bytes),
        whole AS (PARTITION BY trace_id, kind, ranks, nodes, device_name, dtype, operation,
            placement)
),
half AS (
    SELECT *, CASE WHEN busbw >= peak / 2 AND smaller_busbw < peak / 2
        THEN smaller_bytes + (bytes - smaller_bytes) * (peak / 2 - smaller_busbw)
            / (busbw - smaller_busbw) END AS half_bytes
    FROM curve
)
SELECT trace_id, kind, ranks, nodes, device_name, dtype, operation, placement,
    count(*) AS sizes, min(bytes) AS smallest_bytes, max(bytes) AS largest_bytes,
    CASE WHEN min(bytes) <= 4096 THEN arg_min(time_ns, bytes) END AS latency_ns,
    nullif(max(peak), 0) AS peak_busbw_bytes_per_s, arg_max(bytes, busbw) AS peak_bytes,
    min(half_bytes) AS half_bandwidth_bytes,
    arg_max(busbw, bytes) <= 1.05 * arg_max(smaller_busbw, bytes) AS is_saturated,
    any_value(evidence) AS evidence
FROM half GROUP BY trace_id, kind, ranks, nodes, device_name, dtype, operation, placement
