/*
title    = "Overlap of communication"
question = "How much of the communication of each rank is hidden behind compute?"
source   = """union of communication intervals, less the time in which no compute kernel runs; the
    same parts as step_breakdown"""
grain    = """device used by a rank, or process with collectives on the host; with by=iteration,
    one iteration of it"""
needs    = ["rank_communication"]
optional = ["process"]
reduce   = "sql:../../reduce/comm_overlap.sql"
[params.by]
doc = "trace: the whole analysis window; iteration: each iteration in the window"
choices = ["trace", "iteration"]
default = "trace"
[columns.trace_id]
doc = "the trace"
[columns.job]
doc = "distributed job of the trace; NULL without a known rank"
[columns.rank]
doc = "rank in the job; NULL when unknown"
[columns.pid]
doc = "process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for collectives on the host"
[columns.iteration]
doc = "iteration; NULL for the whole window"
[columns.elapsed_ns]
unit = "ns"
doc = "length of the window or iteration on the device; NULL on the host"
[columns.collectives]
doc = "communication kernels launched in the window, or ranges on the host"
[columns.total_ns]
unit = "ns"
doc = "sum of their durations; concurrent ones count twice"
[columns.communication_ns]
unit = "ns"
doc = "time with at least one of them"
[columns.overlapped_ns]
unit = "ns"
doc = "communication during which a compute kernel runs; NULL on the host"
[columns.exposed_ns]
unit = "ns"
doc = "communication without a compute kernel; NULL on the host"
[columns.overlap_pct]
unit = "%"
doc = "overlapped ÷ communication; NULL without communication and on the host"
[columns.exposed_pct]
unit = "%"
doc = "exposed ÷ elapsed; NULL on the host"
[columns.evidence]
doc = "kernel name: communication kernels are recognised by name; host range: gloo or NVTX"
[columns.measured_over]
doc = "steady state, all iterations or whole trace"
[[plot]]
kind = "stacked_bar"
x = "iteration"
y = ["overlapped_ns", "exposed_ns"]
panels = ["trace_id", "device_id"]
[[plot]]
kind = "stacked_barh"
x = ["rank", "trace_id", "device_id"]
y = ["overlapped_ns", "exposed_ns"]
[[plot]]
kind = "barh"
x = ["rank", "trace_id"]
y = ["communication_ns"]
*/
SELECT c.trace_id, c.job, c.rank, p.pid, c.device_id, c.iteration, c.elapsed_ns, c.collectives,
    c.total_ns, c.communication_ns, c.overlapped_ns, c.exposed_ns,
    100.0 * c.overlapped_ns / nullif(c.communication_ns, 0) AS overlap_pct,
    100.0 * c.exposed_ns / nullif(c.elapsed_ns, 0) AS exposed_pct,
    c.evidence, c.measured_over
FROM rank_communication c
LEFT JOIN process p ON p.trace_id = c.trace_id AND p.process_id = c.process_id
WHERE c.by_iteration = (coalesce(getvariable('by'), 'trace') = 'iteration')
ORDER BY c.job, c.rank, c.trace_id, p.pid, c.process_id, c.device_id, c.iteration
