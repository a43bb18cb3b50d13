/*
title    = "Causes over time"
question = "What was the reason for the state of each GPU at each moment of the analysis window?"
source   = """tbd-trace why: kernels count first, then communication, copies, and the reason
    for which the next operation has not begun"""
grain    = "interval of one cause; causes that run together share it"
needs    = [
    "gpu_chain", "op_scope", "host_chain", "step_window", "input_wait", "rank_wait",
    "straggler_cause", "collective", "job_member", "kernel_group", "sampled_limit", "overlap_cost",
    "compile_wait", "clock_check", "iteration", "host_window", "device", "training_window",
    "memcpy", "process", "trace",
]
computed_by = "tbd_trace.why.relations"
returns = ["trace_id", "process_id", "device_id", "start_ns", "end_ns", "cause", "share"]
[columns]
device_id = "device used by the process; -1 when unknown"
cause = "the cause, as in step_causes"
share = "part of the interval that counts as the cause, above 0 and at most 1"
[advice]
missing = "needs operations of a GPU with a duration; {longer}"
*/
-- The types of the columns; the rows are computed in Python.
SELECT NULL::VARCHAR AS trace_id, NULL::BIGINT AS process_id, NULL::BIGINT AS device_id,
    NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns, NULL::VARCHAR AS cause,
    NULL::DOUBLE AS share
WHERE false
