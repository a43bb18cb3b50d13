/*
title    = "Gains of changes"
question = "How long would a step take after a change, and what would limit it then?"
source   = """replay of the trace under changed durations (tbd-trace whatif), with the parts of a
    saving that programs have had; the interval holds in 8 of 10 cases"""
grain    = "process with a complete step, and change"
needs    = ["kernel", "changed_step"]
reduce   = "concat"
together = "job"
returns = [
    "trace_id", "pid", "change", "now_step_ns", "step_ns", "gain_pct", "best_step_ns",
    "likely_step_ns", "worst_step_ns", "top_cause", "top_share_pct", "evidence", "validated_by",
    "notes", "reason",
]
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
