/*
title    = "Gains of changes"
question = "How long would a step take after a change, and what would limit it then?"
source   = """replay of the trace under changed durations (tbd-trace whatif), with the parts of a
    saving that programs have had; the interval holds in 8 of 10 cases"""
grain    = "process with a complete step, and change"
needs    = ["kernel", "changed_step"]
reduce   = "concat"
together = "job"
[columns.trace_id]
doc = "the trace"
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
[columns.top_cause]
doc = "largest cause after the changes"
[columns.top_share_pct]
unit = "%"
doc = "its share of the changed step"
[columns.evidence]
doc = "replay, or estimated, unvalidated"
[columns.validated_by]
doc = "measured pairs that support the models; NULL without one"
[columns.notes]
doc = "limits of the prediction"
[columns.reason]
doc = "reason for a missing prediction; NULL otherwise"
[plot]
kind = "barh"
x = "change"
y = ["gain_pct"]
panels = ["trace_id", "pid"]
*/
SELECT trace_id, pid, change, now_step_ns, step_ns, gain_pct, best_step_ns, likely_step_ns,
    worst_step_ns, top_cause, top_share_pct, evidence, validated_by, notes, reason
FROM changed_step
ORDER BY trace_id, process_id, step_ns, change
