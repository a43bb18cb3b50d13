/*
title    = "Straggler"
question = "Which rank makes the others wait, and is it always the same one?"
source   = """starts of synchronizing collectives on one clock; collectives whose start skew is
    within the uncertainty of the clocks are undecided"""
grain    = "rank of a job"
needs    = ["rank_lateness"]
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
SELECT job, rank, collectives, decided, times_last, share_last_pct, caused_wait_ns,
    suffered_wait_ns, mean_lateness_ns, median_lateness_when_last_ns, lateness_pct, is_straggler,
    verdict, reason, clock, uncertainty_ns
FROM rank_lateness
ORDER BY job, times_last DESC, rank
