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
[params.change]
doc     = """changes of `tbd-trace whatif --list`, separated by ; and applied together;
    none: each change without an argument by itself"""
default = ""
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.pid]
doc = "process; NULL when unknown"
[columns.change]
doc = "the changes"
[columns.now_step_ns]
unit = "ns"
doc = "mean step after the warm-up"
[columns.step_ns]
unit = "ns"
doc = "predicted step: the likely one; NULL with a reason"
[columns.gain_pct]
unit = "%"
doc = "now_step_ns ÷ step_ns - 1; NULL with a reason"
[columns.best_step_ns]
unit = "ns"
doc = "step in the best of 8 in 10 cases; NULL with a reason"
[columns.likely_step_ns]
unit = "ns"
doc = "likely step; NULL with a reason"
[columns.worst_step_ns]
unit = "ns"
doc = "step in the worst of 8 in 10 cases; NULL with a reason"
[columns.validated_by]
doc = "measured pairs that support the models; NULL without one"
[columns.evidence]
doc = "replay, or estimated, unvalidated"
[columns.top_cause]
doc = "largest cause after the changes"
[columns.top_share_pct]
unit = "%"
doc = "its share of the changed step"
[columns.notes]
doc = "limits of the prediction"
[columns.reason]
doc = "reason for a missing prediction; NULL otherwise"
[advice]
missing = "needs a complete step; {steps}"
*/
-- The types of the columns; the rows are computed in Python.
SELECT NULL::VARCHAR AS trace_id, NULL::BIGINT AS process_id, NULL::BIGINT AS pid,
    coalesce(getvariable('change'), '') AS change, NULL::DOUBLE AS now_step_ns,
    NULL::DOUBLE AS step_ns, NULL::DOUBLE AS gain_pct, NULL::DOUBLE AS best_step_ns,
    NULL::DOUBLE AS likely_step_ns, NULL::DOUBLE AS worst_step_ns, NULL::VARCHAR AS validated_by,
    NULL::VARCHAR AS evidence, NULL::VARCHAR AS top_cause, NULL::DOUBLE AS top_share_pct,
    NULL::VARCHAR[] AS notes, NULL::VARCHAR AS reason
WHERE false
