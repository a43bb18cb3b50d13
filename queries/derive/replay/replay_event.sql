/*
title    = "Events after a change"
question = "When would each call and operation run after some changes?"
source   = """replay of the trace under changed durations (tbd-trace whatif), in the best case"""
grain    = "call or GPU operation of a process"
needs    = [
    "gpu_chain", "op_scope", "host_chain", "step_window", "input_wait", "rank_wait",
    "straggler_cause", "collective", "job_member", "kernel_group", "sampled_limit", "overlap_cost",
    "compile_wait", "clock_check", "iteration", "host_window", "device", "training_window",
    "device_peak", "gpu_products", "memcpy", "process", "trace", "whatif_models",
]
computed_by = "tbd_trace.why.relations"
returns = ["trace_id", "process_id", "change", "event", "position", "start_ns", "end_ns"]
[params.change]
doc     = """changes of `tbd-trace whatif --list`, separated by ; and applied together;
    none: the replay of the trace as it is"""
default = ""
[columns]
change = "the changes; empty for none"
event = "call or operation"
position = "host_chain.position of a call, gpu_chain.position of an operation"
[advice]
missing = "needs operations of a GPU with a duration; {longer}"
*/
-- The types of the columns; the rows are computed in Python.
SELECT NULL::VARCHAR AS trace_id, NULL::BIGINT AS process_id,
    getvariable('change') AS change, NULL::VARCHAR AS event,
    NULL::BIGINT AS position, NULL::BIGINT AS start_ns, NULL::BIGINT AS end_ns
WHERE false
