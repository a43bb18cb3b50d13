/*
title    = "Causes of the duration of a step"
question = "Why does a step of each process take so long?"
source   = """tbd-trace why: the time of the steps of the analysis window is divided among disjoint
    causes; gains are those of a replay of the trace without the cause"""
grain    = "cause of a process"
needs    = [
    "gpu_chain", "op_scope", "host_chain", "step_window", "input_wait", "rank_wait",
    "straggler_cause", "collective", "job_member", "kernel_group", "sampled_limit", "overlap_cost",
    "compile_wait", "clock_check", "iteration", "host_window", "device", "training_window",
    "memcpy", "process", "trace", "step_causes",
]
computed_by = "tbd_trace.why.relations"
returns = [
    "trace_id", "process_id", "pid", "device_id", "rank", "cause", "title", "share_pct",
    "ns_per_step", "evidence", "confidence", "best_step_ns", "likely_step_ns", "worst_step_ns",
    "gain_pct", "advice", "remedy", "is_change", "steps", "step_ns", "gpu_step_ns", "elapsed_ns",
    "judged_step_ns", "replay_error_pct", "measured_over", "method", "trains", "sampled",
    "not_known",
]
[columns]
device_id = "its device with the most GPU work; -1 when unknown"
rank = "rank of the cause by share, from 1"
cause = "the cause, as in step_causes"
title = "the cause in words"
share_pct = "share of the elapsed time; those of a process sum to 100 %"
ns_per_step = {unit = "ns", doc = "time per step; NULL without steps"}
evidence = "what in the trace shows the cause"
confidence = "high or low"
best_step_ns = "step after its change in the best of 8 in 10 cases; NULL if no change is known"
likely_step_ns = "step after its change, likely; NULL as best_step_ns"
worst_step_ns = "step after its change in the worst of 8 in 10 cases; NULL as best_step_ns"
gain_pct = "judged_step_ns ÷ likely_step_ns - 1; NULL as best_step_ns"
advice = "change to try; NULL if none is known, or it likely gains less than 3 %"
remedy = "change of whatif that likely gains most; NULL if none is known"
is_change = "true for the cause whose advice gains most"
steps = "steps used, those of the analysis window; 0 if none were found"
step_ns = "mean of the steps used; NULL without steps"
gpu_step_ns = "time per step in which the GPU works; NULL without steps"
elapsed_ns = "time that the shares divide"
judged_step_ns = "mean of the steps used, to which gains refer; NULL without steps"
replay_error_pct = "error of the mean step if the replay drops unexplained time; NULL without gains"
measured_over = "steps behind shares and gains"
method = "recognition of steps (iteration.method); NULL without steps"
sampled = "what limits the kernels, by periodic GPU metrics; NULL without samples"
not_known = "sentences: missing data, and how to record it"
[advice]
missing = "needs operations of a GPU with a duration; {longer}"
*/
-- The types of the columns; the rows are computed in Python.
SELECT NULL::VARCHAR AS trace_id, NULL::BIGINT AS process_id, NULL::BIGINT AS pid,
    NULL::BIGINT AS device_id, NULL::BIGINT AS rank, NULL::VARCHAR AS cause,
    NULL::VARCHAR AS title, NULL::DOUBLE AS share_pct, NULL::DOUBLE AS ns_per_step,
    NULL::VARCHAR AS evidence, NULL::VARCHAR AS confidence, NULL::DOUBLE AS best_step_ns,
    NULL::DOUBLE AS likely_step_ns, NULL::DOUBLE AS worst_step_ns, NULL::DOUBLE AS gain_pct,
    NULL::VARCHAR AS advice, NULL::VARCHAR AS remedy, NULL::BOOLEAN AS is_change,
    NULL::BIGINT AS steps, NULL::DOUBLE AS step_ns, NULL::DOUBLE AS gpu_step_ns,
    NULL::BIGINT AS elapsed_ns, NULL::DOUBLE AS judged_step_ns, NULL::DOUBLE AS replay_error_pct,
    NULL::VARCHAR AS measured_over, NULL::VARCHAR AS method, NULL::BOOLEAN AS trains,
    NULL::VARCHAR AS sampled, NULL::VARCHAR[] AS not_known
WHERE false
