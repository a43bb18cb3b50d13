/*
title    = "Clock offsets of ranks"
question = "How are the clocks of the ranks aligned, and how precisely?"
source   = "the best of clock_estimate"
grain    = "rank of a job"
needs    = ["clock_estimate"]
returns = ["job", "rank", "method", "offset_ns", "drift_ppm", "reference_ns", "uncertainty_ns"]
[columns]
method = "method of clock_estimate; reference for the lowest rank"
reference_ns = """time on the clock of the reference rank at which the offset holds; NULL when
    unknown"""
uncertainty_ns = "uncertainty of the offset"
*/
SELECT job, rank, method, offset_ns, drift_ppm, reference_ns, uncertainty_ns
FROM clock_estimate WHERE is_used
UNION ALL
SELECT DISTINCT job, reference_rank, 'reference', 0, NULL::DOUBLE, NULL::BIGINT, 0
FROM clock_estimate
