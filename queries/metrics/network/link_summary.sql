/*
title    = "Links"
question = "What latency and what bandwidth do collectives get from the links?"
source   = """logs of nccl-tests: time of the smallest message, largest bus bandwidth, and the
    message size with half of it (Hockney's half-performance length)"""
grain    = "collective, ranks, type, operation and placement of a log"
needs    = ["link_test"]
returns = [
    "trace_id", "kind", "ranks", "nodes", "device_name", "dtype", "operation", "placement",
    "latency_ns", "half_bandwidth_bytes", "peak_busbw_bytes_per_s", "peak_bytes", "is_saturated",
    "sizes", "smallest_bytes", "largest_bytes", "evidence",
]
[columns]
device_name = "GPU model; NULL when unknown, or if models differ"
half_bandwidth_bytes = """message size with half of the largest bus bandwidth, by interpolation
    between sizes; NULL if the smallest message reaches half"""
is_saturated = """true if the bus bandwidth of the largest size is within 5 % of that of the next
    smaller one or below it; false: larger messages may be faster; NULL with one size"""
[[plot]]
kind = "barh"
x = ["kind", "ranks", "device_name", "dtype", "placement"]
y = [["peak_busbw_bytes_per_s"], ["latency_ns"]]
*/
SELECT trace_id, kind, ranks, nodes, device_name, dtype, operation, placement, latency_ns,
    half_bandwidth_bytes, peak_busbw_bytes_per_s, peak_bytes, is_saturated, sizes, smallest_bytes,
    largest_bytes, evidence
FROM link_test
ORDER BY trace_id, kind, ranks, nodes, device_name, dtype, operation, placement DESC
