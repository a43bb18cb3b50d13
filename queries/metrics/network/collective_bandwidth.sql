/*
title    = "Bandwidth of collectives"
question = "How fast do collectives of each kind and size move data, compared with the link?"
source   = """bytes per time (algorithm bandwidth) and its multiple that a link carries (bus
    bandwidth), as nccl-tests defines them (PERFORMANCE.md), of the median time"""
grain    = "kind, bytes, group size and basis, per job; per trace without a known rank"
needs    = ["collective_rate"]
[columns.job]
doc = "the job; NULL for a trace without a known rank"
[columns.trace_id]
doc = "the trace; NULL for a job"
[columns.kind]
doc = "all_reduce, all_gather, …; NULL when unknown"
[columns.bytes]
unit = "byte"
doc = "bytes of each collective: the larger one of input and output; NULL when unknown"
[columns.group_size]
doc = "ranks in the group; NULL when unknown"
[columns.group_evidence]
doc = """recorded; world size or ranks present: of the job, where the group is not recorded; NULL
    when unknown"""
[columns.basis]
doc = """transfer: last start to first end of all ranks present, if longer than the uncertainty of
    their clocks; duration: on one rank, with its wait for the others"""
[columns.collectives]
doc = "collectives; with the basis duration, those of each rank"
[columns.median_ns]
unit = "ns"
doc = "median time"
[columns.p5_ns]
unit = "ns"
doc = "5th percentile of the time"
[columns.p95_ns]
unit = "ns"
doc = "95th percentile of the time"
[columns.algbw_bytes_per_s]
unit = "byte/s"
doc = "algorithm bandwidth: bytes ÷ median time; NULL if bytes are unknown"
[columns.busbw_bytes_per_s]
unit = "byte/s"
doc = """bus bandwidth: algorithm bandwidth × factor of kind and group size; NULL if one of them is
    unknown, and for kinds that nccl-tests does not define"""
[columns.link_pct]
unit = "%"
doc = "bus bandwidth ÷ bandwidth of the link; NULL if one is unknown"
[columns.link_bytes_per_s]
unit = "byte/s"
doc = "bandwidth of the link of one rank in one direction; NULL when unknown"
[columns.link_evidence]
doc = "link_gbit or nccl-tests; NULL when unknown"
[columns.uncertainty_ns]
unit = "ns"
doc = "uncertainty of the clocks behind a transfer; NULL for durations"
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
