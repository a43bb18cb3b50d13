/*
title    = "Matched collectives"
question = "When did each rank begin and end each collective, on one clock?"
source   = """the collective moves data from the last start to the first end; before that,
    ranks wait for the last one"""
grain    = "collective of a rank of a job with several ranks in the communicator"
needs    = ["_collective_match"]
optional = ["clock_offset"]
returns = [
    "job", "communicator", "sequence", "rank", "kind", "is_synchronizing", "bytes", "source",
    "trace_id", "collective_id", "start_ns", "end_ns", "lateness_ns", "wait_ns", "start_skew_ns",
    "end_skew_ns", "transfer_ns", "last_rank", "uncertainty_ns", "mismatch",
]
[columns]
sequence = "number of the collective in the communicator, from 0 without recorded numbers"
start_ns = "start, clock of the lowest rank; NULL without a clock offset"
end_ns = "end, clock of the lowest rank; NULL without a clock offset"
lateness_ns = "start − earliest start; NULL for a mismatch"
wait_ns = "latest start − start; NULL for a mismatch"
start_skew_ns = "latest start − earliest start; NULL for a mismatch"
end_skew_ns = "latest end − earliest end; NULL for a mismatch"
transfer_ns = "earliest end − latest start; NULL for a mismatch, or if ranks do not overlap"
last_rank = "rank that starts last; NULL for a mismatch"
uncertainty_ns = "largest uncertainty of the clocks of the job"
[advice]
missing = """needs collectives of at least two ranks; ingest the ranks together with
`tbd-trace ingest --job NAME DIRECTORY`"""
*/
WITH
-- Time t of the rank is t − offset − drift · (t − offset − reference) of the lowest rank.
aligned AS (
    SELECT m.* EXCLUDE (start_ns, end_ns),
        m.start_ns - c.offset_ns - coalesce(round(c.drift_ppm / (1e6 + c.drift_ppm)
            * (m.start_ns - c.offset_ns - c.reference_ns))::BIGINT, 0) AS start_ns,
        m.end_ns - c.offset_ns - coalesce(round(c.drift_ppm / (1e6 + c.drift_ppm)
            * (m.end_ns - c.offset_ns - c.reference_ns))::BIGINT, 0) AS end_ns,
        max(c.uncertainty_ns) OVER (PARTITION BY m.job) AS uncertainty_ns,
        bool_or(c.offset_ns IS NULL) OVER same AS is_unaligned
    FROM _collective_match m
    LEFT JOIN clock_offset c ON c.job = m.job AND c.rank = m.rank
    WINDOW same AS (PARTITION BY m.job, m.communicator, m.sequence)
),
extent AS (
    SELECT *,
        min(start_ns) OVER same AS first_start_ns, max(start_ns) OVER same AS last_start_ns,
        min(end_ns) OVER same AS first_end_ns, max(end_ns) OVER same AS last_end_ns,
        first_value(rank) OVER (
            PARTITION BY job, communicator, sequence ORDER BY start_ns DESC, rank) AS latest
    FROM aligned
    WINDOW same AS (PARTITION BY job, communicator, sequence)
),
-- Where a rank lacks records, the k-th is not the same for all: what begins after the end of
-- another one is another collective.
compared AS (
    SELECT * EXCLUDE (mismatch),
        coalesce(mismatch,
            CASE WHEN is_unaligned THEN 'clocks are not comparable'
                 WHEN is_synchronizing AND last_start_ns > first_end_ns + uncertainty_ns
                     THEN format('rank {} begins after the end of another', latest) END)
            AS mismatch
    FROM extent
)
SELECT job, communicator, sequence, rank, kind, is_synchronizing, bytes, source, trace_id,
    collective_id,    start_ns, end_ns,
    CASE WHEN is_compared THEN start_ns - first_start_ns END AS lateness_ns,
    CASE WHEN is_compared THEN last_start_ns - start_ns END AS wait_ns,
    CASE WHEN is_compared THEN last_start_ns - first_start_ns END AS start_skew_ns,
    CASE WHEN is_compared THEN last_end_ns - first_end_ns END AS end_skew_ns,
    CASE WHEN is_compared AND first_end_ns >= last_start_ns
        THEN first_end_ns - last_start_ns END AS transfer_ns,
    CASE WHEN is_compared THEN latest END AS last_rank,
    uncertainty_ns, mismatch
FROM (SELECT *, mismatch IS NULL AS is_compared FROM compared)
