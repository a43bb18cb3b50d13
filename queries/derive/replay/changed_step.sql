/*
title    = "Steps after changes"
question = "How long would a step of each process take after some changes?"
source   = """replay of the trace under changed durations (tbd-trace whatif);
    models in whatif_models"""
grain    = "process with steps, and change"
needs    = [
    "gpu_chain", "op_scope", "host_chain", "step_window", "input_wait", "rank_wait",
    "straggler_cause", "collective", "job_member", "kernel_group", "sampled_limit", "overlap_cost",
    "compile_wait", "clock_check", "iteration", "host_window", "device", "training_window",
    "device_peak", "gpu_products", "memcpy", "process", "trace", "step_causes", "whatif_models",
]
computed_by = "tbd_trace.why.relations"
returns = [
    "trace_id", "process_id", "pid", "change", "now_step_ns", "step_ns", "gain_pct", "best_step_ns",
    "likely_step_ns", "worst_step_ns", "validated_by", "evidence", "top_cause", "top_share_pct",
    "notes", "reason",
]
[params.change]
doc     = """changes of `tbd-trace whatif --list`, separated by ; and applied together;
    none: each change without an argument by itself"""
default = ""
[columns]
change = "the changes"
now_step_ns = "mean step after the warm-up"
step_ns = "predicted step: the likely one; NULL with a reason"
gain_pct = "now_step_ns ÷ step_ns - 1; NULL with a reason"
best_step_ns = "step in the best of 8 in 10 cases; NULL with a reason"
likely_step_ns = "likely step; NULL with a reason"
worst_step_ns = "step in the worst of 8 in 10 cases; NULL with a reason"
validated_by = "measured pairs that support the models; NULL without one"
evidence = "replay, or estimated, unvalidated"
top_cause = "largest cause after the changes"
top_share_pct = "its share of the changed step"
notes = "limits of the prediction"
reason = "reason for a missing prediction; NULL otherwise"
[advice]
missing = "needs a complete step; {steps}"
*/
-- The types of the columns; the rows are computed in Python.
SELECT NULL::VARCHAR AS trace_id, NULL::BIGINT AS process_id, NULL::BIGINT AS pid,
    getvariable('change') AS change, NULL::DOUBLE AS now_step_ns,
    NULL::DOUBLE AS step_ns, NULL::DOUBLE AS gain_pct, NULL::DOUBLE AS best_step_ns,
    NULL::DOUBLE AS likely_step_ns, NULL::DOUBLE AS worst_step_ns, NULL::VARCHAR AS validated_by,
    NULL::VARCHAR AS evidence, NULL::VARCHAR AS top_cause, NULL::DOUBLE AS top_share_pct,
    NULL::VARCHAR[] AS notes, NULL::VARCHAR AS reason
WHERE false
