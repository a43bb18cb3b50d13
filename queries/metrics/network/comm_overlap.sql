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
returns = [
    "trace_id", "job", "rank", "pid", "device_id", "iteration", "elapsed_ns", "collectives",
    "total_ns", "communication_ns", "overlapped_ns", "exposed_ns", "overlap_pct", "exposed_pct",
    "evidence", "measured_over",
]
[params.by]
doc = "trace: the whole analysis window; iteration: each iteration in the window"
choices = ["trace", "iteration"]
default = "trace"
[columns]
iteration = "iteration; NULL for the whole window"
overlap_pct = "overlapped ÷ communication; NULL without communication and on the host"
exposed_pct = "exposed ÷ elapsed; NULL on the host"
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
WHERE c.by_iteration = (getvariable('by') = 'iteration')
ORDER BY c.job, c.rank, c.trace_id, p.pid, c.process_id, c.device_id, c.iteration
