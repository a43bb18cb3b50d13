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
returns = [
    "trace_id", "pid", "device_id", "iterations", "compute_ns", "under_ns", "slowdown", "cost_ns",
    "places", "matched_pct", "placebo", "evidence", "reason",
]
[columns]
device_id = "device; NULL when unknown"
iterations = "iterations with the usual sequence of kernels"
slowdown = "duration under communication ÷ alone; NULL where the trace does not show it"
places = "places in the step with executions under communication and at least 2 alone"
placebo = "the same ratio of two halves of the executions alone: 1 if durations repeat"
evidence = "kernel durations"
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
