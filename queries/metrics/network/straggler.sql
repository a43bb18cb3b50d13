/*
title    = "Straggler"
question = "Which rank makes the others wait, and is it always the same one?"
source   = """starts of synchronizing collectives on one clock; collectives whose start skew is
    within the uncertainty of the clocks are undecided"""
grain    = "rank of a job"
needs    = ["rank_lateness"]
optional = ["straggler_cause"]
[columns.job]
doc = "the job"
[columns.rank]
doc = "rank; the most frequent last rank comes first"
[columns.collectives]
doc = "matched synchronizing collectives of the rank"
[columns.decided]
doc = "those whose start skew is above the uncertainty of the clocks"
[columns.times_last]
doc = "decided collectives that the rank starts last"
[columns.share_last_pct]
unit = "%"
doc = "times_last ÷ decided; NULL if none is decided"
[columns.caused_wait_ns]
unit = "ns"
doc = "wait of the other ranks in those, added up"
[columns.suffered_wait_ns]
unit = "ns"
doc = "wait of the rank for later ones in decided collectives, added up"
[columns.mean_lateness_ns]
unit = "ns"
doc = "mean of start − earliest start; NULL without a matched collective"
[columns.median_lateness_when_last_ns]
unit = "ns"
doc = "median lateness in decided collectives that the rank starts last; NULL if there is none"
[columns.lateness_pct]
unit = "%"
doc = "median lateness when last ÷ median iteration; NULL where one is unknown"
[columns.is_straggler]
doc = "true for the rank of the verdict same rank"
[columns.lost_ns]
unit = "ns"
doc = """time of a step in which another rank waits for this one, mean over the other ranks; on a
    GPU, while no compute kernel runs; NULL if the rank is never last, or no step is known"""
[columns.phase]
doc = """where the rank loses the time: compute, input or host, against ranks that are late less;
    NULL where the traces do not show it"""
[columns.cause]
doc = "more work, slower at equal work, waits for input or host; NULL as phase"
[columns.extra_ns]
unit = "ns"
doc = "what the rank takes longer in a step for this cause; NULL without one"
[columns.verdict]
doc = "verdict on the job: same rank, rotating, not evaluable"
[columns.reason]
doc = "numbers behind the verdict, and missing ranks"
[columns.clock]
doc = "how the clock of this rank is aligned; reference for the lowest rank"
[columns.uncertainty_ns]
unit = "ns"
doc = "largest uncertainty of the clocks of the job; NULL without aligned clocks"
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
