/*
title    = "Links"
question = "What latency and what bandwidth do collectives get from the links?"
source   = """logs of nccl-tests: time of the smallest message, largest bus bandwidth, and the
    message size with half of it (Hockney's half-performance length)"""
grain    = "collective, ranks, type, operation and placement of a log"
needs    = ["link_test"]
[columns.trace_id]
doc = "the log"
[columns.kind]
doc = "all_reduce, all_gather, …; NULL when unknown"
[columns.ranks]
doc = "ranks of the test; NULL when unknown"
[columns.nodes]
doc = "hosts of the ranks; NULL when unknown"
[columns.device_name]
doc = "GPU model; NULL when unknown, or if models differ"
[columns.dtype]
doc = "type of the elements"
[columns.operation]
doc = "reduction; NULL for other collectives"
[columns.placement]
doc = "out-of-place, in-place; NULL when unknown"
[columns.latency_ns]
unit = "ns"
doc = "time of the smallest message; NULL if it is above 4 KiB"
[columns.half_bandwidth_bytes]
unit = "byte"
doc = """message size with half of the largest bus bandwidth, by interpolation between sizes; NULL
    if the smallest message reaches half"""
[columns.peak_busbw_bytes_per_s]
unit = "byte/s"
doc = "largest bus bandwidth of all sizes"
[columns.peak_bytes]
unit = "byte"
doc = "message size with the largest bus bandwidth"
[columns.is_saturated]
doc = """true if the bus bandwidth of the largest size is within 5 % of that of the next smaller one
    or below it; false: larger messages may be faster; NULL with one size"""
[columns.sizes]
doc = "message sizes"
[columns.smallest_bytes]
unit = "byte"
doc = "smallest message"
[columns.largest_bytes]
unit = "byte"
doc = "largest message"
[columns.evidence]
doc = """computed: from bytes, time and ranks; printed: by nccl-tests, where kind or ranks are
    unknown"""
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
