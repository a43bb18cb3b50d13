/*
title    = "Clock offsets of ranks"
question = "How are the clocks of the ranks aligned, and how precisely?"
source   = "the best of clock_estimate"
grain    = "rank of a job"
needs    = ["clock_estimate"]
[columns.job]
doc = "the job"
[columns.rank]
doc = "the rank"
[columns.method]
doc = "method of clock_estimate; reference for the lowest rank"
[columns.offset_ns]
unit = "ns"
doc = "clock of the rank − clock of the reference rank, at reference_ns"
[columns.drift_ppm]
unit = "ppm"
doc = "growth of the offset; NULL where it is not estimated"
[columns.reference_ns]
unit = "ns"
doc = "time on the clock of the reference rank at which the offset holds; NULL when unknown"
[columns.uncertainty_ns]
unit = "ns"
doc = "uncertainty of the offset"
*/
SELECT job, rank, method, offset_ns, drift_ppm, reference_ns, uncertainty_ns
FROM clock_estimate WHERE is_used
UNION ALL
SELECT DISTINCT job, reference_rank, 'reference', 0, NULL::DOUBLE, NULL::BIGINT, 0
FROM clock_estimate
