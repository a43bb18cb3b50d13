/*
title    = "Bandwidth of collectives"
question = "How fast do collectives of each kind and size move data, compared with the link?"
source   = """bytes per time (algorithm bandwidth) and its multiple that a link carries (bus
    bandwidth), as nccl-tests defines them (PERFORMANCE.md), of the median time"""
grain    = "kind, bytes, group size and basis, per job; per trace without a known rank"
needs    = ["collective_rate"]
returns = [
    "job", "trace_id", "kind", "bytes", "group_size", "group_evidence", "basis", "collectives",
    "median_ns", "p5_ns", "p95_ns", "algbw_bytes_per_s", "busbw_bytes_per_s", "link_pct",
    "link_bytes_per_s", "link_evidence", "uncertainty_ns",
]
[plot]
kind = "scatter"
x = "bytes"
y = ["busbw_bytes_per_s"]
series = ["kind", "group_size", "basis"]
panels = ["job", "trace_id"]
log = ["x", "y"]
*/
SELECT job, trace_id, kind, bytes, group_size, group_evidence, basis, collectives, median_ns,
    p5_ns, p95_ns, algbw_bytes_per_s, busbw_bytes_per_s, link_pct, link_bytes_per_s, link_evidence,
    uncertainty_ns
FROM collective_rate
ORDER BY job, trace_id, kind, bytes DESC, group_size, group_evidence, basis
