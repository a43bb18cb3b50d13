/*
title    = "Straggler"
question = "Which rank makes the others wait, and is it always the same one?"
source   = """starts of synchronizing collectives on one clock; collectives whose start skew is
    within the uncertainty of the clocks are undecided"""
grain    = "rank of a job"
needs    = ["rank_lateness"]
optional = ["straggler_cause"]
returns = [
    "job", "rank", "collectives", "decided", "times_last", "share_last_pct", "caused_wait_ns",
    "suffered_wait_ns", "mean_lateness_ns", "median_lateness_when_last_ns", "lateness_pct",
    "is_straggler", "lost_ns", "phase", "cause", "extra_ns", "verdict", "reason", "clock",
    "uncertainty_ns",
]
[columns]
rank = "rank; the most frequent last rank comes first"
lost_ns = """time of a step in which another rank waits for this one, mean over the other ranks; on
    a GPU, while no compute kernel runs; NULL if the rank is never last, or no step is known"""
phase = """where the rank loses the time: compute, input or host, against ranks that are late less;
    NULL where the traces do not show it"""
cause = "more work, slower at equal work, waits for input or host; NULL as phase"
[[plot]]
kind = "barh"
x = ["job", "rank"]
y = ["times_last"]
*/
SELECT l.job, l.rank, l.collectives, l.decided, l.times_last, l.share_last_pct, l.caused_wait_ns,
    l.suffered_wait_ns, l.mean_lateness_ns, l.median_lateness_when_last_ns, l.lateness_pct,
    l.is_straggler, c.lost_ns, c.phase, c.cause, c.extra_ns, l.verdict, l.reason, l.clock,
    l.uncertainty_ns
FROM rank_lateness l
LEFT JOIN straggler_cause c USING (job, rank)
ORDER BY l.job, l.times_last DESC, l.rank
