/*
title    = "Overlap bill"
question = """How much longer do compute kernels take while the GPU communicates, and what does this
    cost in each step?"""
source   = """the same kernel at the same place in the step, under communication in some steps (over
    95 % of its duration) and alone in others; only if the durations alone repeat"""
grain    = "device with compute kernels under communication"
needs    = ["overlap_cost"]
optional = ["process"]
reduce   = "concat"
[columns.trace_id]
doc = "the trace"
[columns.pid]
doc = "process; NULL when unknown"
[columns.device_id]
doc = "device; NULL when unknown"
[columns.iterations]
doc = "iterations with the usual sequence of kernels"
[columns.compute_ns]
unit = "ns"
doc = "compute kernels of an iteration, mean"
[columns.under_ns]
unit = "ns"
doc = "part of them under communication"
[columns.slowdown]
doc = "duration under communication ÷ alone; NULL where the trace does not show it"
[columns.cost_ns]
unit = "ns"
doc = "under_ns × (1 − 1 ÷ slowdown): what the overlap adds to the kernels of an iteration"
[columns.places]
doc = "places in the step with executions under communication and at least 2 alone"
[columns.matched_pct]
unit = "%"
doc = "executions under communication at these places ÷ under_ns of all"
[columns.placebo]
doc = "the same ratio of two halves of the executions alone: 1 if durations repeat"
[columns.evidence]
doc = "kernel durations"
[columns.reason]
doc = "why the slowdown is NULL; NULL otherwise"
[plot]
kind = "barh"
x = ["trace_id", "device_id"]
y = ["cost_ns"]
*/
SELECT c.trace_id, p.pid, nullif(c.device_id, -1) AS device_id, c.iterations, c.compute_ns,
    c.under_ns, c.slowdown, c.cost_ns, c.places, c.matched_pct, c.placebo,
    'kernel durations' AS evidence, c.reason
FROM overlap_cost c
LEFT JOIN process p ON p.trace_id = c.trace_id AND p.process_id = c.process_id
ORDER BY c.trace_id, p.pid, c.process_id, device_id
