/*
title    = "Causes of slow training"
question = "Why does a step take so long, and how much faster would it be without each cause?"
source   = """disjoint shares of the time of the steps of the analysis window; gains by replay of
    the trace (tbd-trace why, which answers the same in words)"""
grain    = "cause of a process, by share"
needs    = ["kernel", "step_cause"]
reduce   = "concat"
together = "job"
[columns.trace_id]
doc = "the trace"
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
doc = "true for the cause whose change likely gains most"
[columns.steps]
doc = "steps used, those of the analysis window; 0 if none were found"
[columns.judged_step_ns]
unit = "ns"
doc = "mean of the steps used, to which gains refer; NULL without steps"
[columns.replay_error_pct]
unit = "%"
doc = "error of the mean step if the replay drops unexplained time; NULL without gains"
[columns.measured_over]
doc = "steps behind shares and gains"
[plot]
kind = "barh"
x = "title"
y = ["share_pct"]
panels = ["trace_id", "pid"]
*/
SELECT trace_id, pid, device_id, rank, cause, title, share_pct, ns_per_step, evidence, confidence,
    best_step_ns, likely_step_ns, worst_step_ns, gain_pct, advice, remedy, is_change,
    steps, judged_step_ns, replay_error_pct, measured_over
FROM step_cause
ORDER BY trace_id, process_id, rank
