/*
title    = "Skew between ranks"
question = "How far apart do the ranks begin and end each collective, and which one is last?"
source   = "matched collectives on one clock; without a common end the clocks are in doubt"
grain    = "matched collective and rank"
needs    = ["matched_collective"]
optional = ["clock_offset", "job_ranks"]
[columns.job]
doc = "the job"
[columns.communicator]
doc = "process group or stream"
[columns.sequence]
doc = "number of the collective in the communicator"
[columns.rank]
doc = "the rank"
[columns.kind]
doc = "all_reduce, broadcast, …; NULL when unknown"
[columns.bytes]
unit = "byte"
doc = "bytes of the collective; NULL when unknown"
[columns.is_synchronizing]
doc = "true if no rank can end before all have begun"
[columns.lateness_ns]
unit = "ns"
doc = "start of the rank − earliest start; NULL for a mismatch"
[columns.wait_ns]
unit = "ns"
doc = "latest start − start of the rank; NULL for a mismatch"
[columns.start_skew_ns]
unit = "ns"
doc = "latest start − earliest start; NULL for a mismatch"
[columns.end_skew_ns]
unit = "ns"
doc = "latest end − earliest end; NULL for a mismatch"
[columns.transfer_ns]
unit = "ns"
doc = "earliest end − latest start; NULL for a mismatch, or if ranks do not overlap"
[columns.last_rank]
doc = "rank that starts last; NULL for a mismatch, or if the skew is within the uncertainty"
[columns.is_anomaly]
doc = """true if a synchronizing collective ends more than 10 times the uncertainty apart, on
    hosts at least 100 ms; NULL for others and for a mismatch"""
[columns.clock]
doc = "how the clock of the rank is aligned; reference for the lowest rank"
[columns.uncertainty_ns]
unit = "ns"
doc = "largest uncertainty of the clocks of the job; NULL without aligned clocks"
[columns.mismatch]
doc = "why the ranks do not agree; NULL for a matched collective"
[columns.missing_ranks]
doc = "ranks of the job without a trace, the first 64; NULL if there is none"
[columns.sequence_end]
doc = "sequence + 1, for plots"
[plot]
kind = "heatmap"
x = "sequence"
x_end = "sequence_end"
x_title = "collective"
y = ["lateness_ns"]
series = ["rank"]
panels = ["job", "communicator"]
*/
SELECT m.job, m.communicator, m.sequence, m.rank, m.kind, m.bytes, m.is_synchronizing,
    m.lateness_ns, m.wait_ns, m.start_skew_ns, m.end_skew_ns, m.transfer_ns,
    CASE WHEN m.start_skew_ns > m.uncertainty_ns THEN m.last_rank END AS last_rank,
    -- Rings of gloo end up to 16 ms apart.
    CASE WHEN m.is_synchronizing THEN m.end_skew_ns > 10 * greatest(m.uncertainty_ns,
        if(m.source = 'kernel', 20000, 10000000)) END AS is_anomaly,
    c.method AS clock, m.uncertainty_ns, m.mismatch, r.missing_ranks,
    m.sequence + 1 AS sequence_end
FROM matched_collective m
JOIN job_ranks r ON r.job = m.job
LEFT JOIN clock_offset c ON c.job = m.job AND c.rank = m.rank
ORDER BY m.job, m.communicator, m.sequence, m.rank
