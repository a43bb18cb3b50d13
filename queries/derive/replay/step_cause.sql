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
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.pid]
doc = "process; NULL when unknown"
[columns.device_id]
doc = "its device with the most GPU work; -1 when unknown"
[columns.rank]
doc = "rank of the cause by share, from 1"
[columns.cause]
doc = "the cause, as in step_causes"
[columns.title]
doc = "the cause in words"
[columns.share_pct]
unit = "%"
doc = "share of the elapsed time; those of a process sum to 100 %"
[columns.ns_per_step]
unit = "ns"
doc = "time per step; NULL without steps"
[columns.evidence]
doc = "what in the trace shows the cause"
[columns.confidence]
doc = "high or low"
[columns.best_step_ns]
unit = "ns"
doc = "step after its change in the best of 8 in 10 cases; NULL if no change is known"
[columns.likely_step_ns]
unit = "ns"
doc = "step after its change, likely; NULL as best_step_ns"
[columns.worst_step_ns]
unit = "ns"
doc = "step after its change in the worst of 8 in 10 cases; NULL as best_step_ns"
[columns.gain_pct]
unit = "%"
doc = "judged_step_ns ÷ likely_step_ns - 1; NULL as best_step_ns"
[columns.advice]
doc = "change to try; NULL if none is known, or it likely gains less than 3 %"
[columns.remedy]
doc = "change of whatif that likely gains most; NULL if none is known"
[columns.is_change]
doc = "true for the cause whose advice gains most"
[columns.steps]
doc = "steps used, those of the analysis window; 0 if none were found"
[columns.step_ns]
unit = "ns"
doc = "mean of the steps used; NULL without steps"
[columns.gpu_step_ns]
unit = "ns"
doc = "time per step in which the GPU works; NULL without steps"
[columns.elapsed_ns]
unit = "ns"
doc = "time that the shares divide"
[columns.judged_step_ns]
unit = "ns"
doc = "mean of the steps used, to which gains refer; NULL without steps"
[columns.replay_error_pct]
unit = "%"
doc = "error of the mean step if the replay drops unexplained time; NULL without gains"
[columns.measured_over]
doc = "steps behind shares and gains"
[columns.method]
doc = "recognition of steps (iteration.method); NULL without steps"
[columns.trains]
doc = "true if the program is known or assumed to train"
[columns.sampled]
doc = "what limits the kernels, by periodic GPU metrics; NULL without samples"
[columns.not_known]
doc = "sentences: missing data, and how to record it"
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
