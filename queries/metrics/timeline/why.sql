/*
title    = "Causes of slow training"
question = "Why does a step take so long, and how much faster would it be without each cause?"
source   = """disjoint shares of the time of the steps of the analysis window; gains by replay of
    the trace (tbd-trace why, which answers the same in words)"""
grain    = "cause of a process, by share"
needs    = ["kernel", "step_cause"]
reduce   = "concat"
together = "job"
returns = [
    "trace_id", "pid", "device_id", "rank", "cause", "title", "share_pct", "ns_per_step",
    "evidence", "confidence", "best_step_ns", "likely_step_ns", "worst_step_ns", "gain_pct",
    "advice", "remedy", "is_change", "steps", "judged_step_ns", "replay_error_pct", "measured_over",
]
[columns]
device_id = "its device with the most GPU work; -1 when unknown"
is_change = "true for the cause whose change likely gains most"
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
