/*
title    = "Lateness of ranks"
question = "How often is each rank the last to begin a collective, and who waits for it?"
source   = """starts of synchronizing collectives on one clock; collectives whose start skew is
    within the uncertainty of the clocks are undecided"""
grain    = "rank of a job"
needs    = ["matched_collective"]
optional = ["job_member", "job_ranks", "clock_offset", "iteration"]
returns = [
    "job", "rank", "collectives", "decided", "times_last", "share_last_pct", "caused_wait_ns",
    "suffered_wait_ns", "mean_lateness_ns", "median_lateness_when_last_ns", "lateness_pct",
    "is_straggler", "verdict", "reason", "clock", "uncertainty_ns", "missing_ranks",
]
[params.min_share_pct]
doc = "a rank is the straggler if it is last in more than this share of the collectives, in percent"
default = 60.0
[params.min_lateness_pct]
doc = "and if its median lateness then is more than this share of an iteration, in percent"
default = 5.0
[params.min_collectives]
doc = "number of decided collectives that a verdict needs"
default = 3
[columns]
collectives = "matched synchronizing collectives of the rank"
decided = "those whose start skew is above the uncertainty of the clocks"
times_last = "decided collectives that the rank starts last"
share_last_pct = "times_last ÷ decided; NULL if none is decided"
caused_wait_ns = "wait of the other ranks in those, added up"
suffered_wait_ns = "wait of the rank for later ones in decided collectives, added up"
mean_lateness_ns = "mean of start − earliest start; NULL without a matched collective"
median_lateness_when_last_ns = """median lateness in decided collectives that the rank starts last;
    NULL if there is none"""
lateness_pct = "median lateness when last ÷ median iteration; NULL where one is unknown"
is_straggler = "true for the rank of the verdict same rank"
verdict = "verdict on the job: same rank, rotating, not evaluable"
reason = "numbers behind the verdict, and missing ranks"
clock = "how the clock of this rank is aligned; reference for the lowest rank"
uncertainty_ns = "largest uncertainty of the clocks of the job; NULL without aligned clocks"
missing_ranks = "ranks of the job without a trace, the first 64; NULL if there is none"
[advice]
missing = """needs collectives of at least two ranks; ingest the ranks together with
`tbd-trace ingest --job NAME DIRECTORY`"""
*/
WITH
usable AS (
    SELECT *, start_skew_ns > uncertainty_ns AS is_decided
    FROM matched_collective WHERE is_synchronizing AND mismatch IS NULL
),
period AS (
    SELECT m.job, median(i.host_ns) AS iteration_ns
    FROM iteration i JOIN job_member m ON m.trace_id = i.trace_id GROUP BY m.job
),
-- Without iterations, the time from a collective to the next one.
spacing AS (
    SELECT job, (max(start_ns) - min(start_ns)) / nullif(count(*) - 1, 0) AS iteration_ns
    FROM usable GROUP BY job, rank, communicator
),
iteration_length AS (
    SELECT s.job, coalesce(any_value(p.iteration_ns), median(s.iteration_ns)) AS iteration_ns
    FROM spacing s LEFT JOIN period p USING (job) GROUP BY s.job
),
cost AS (
    SELECT job, communicator, sequence, sum(wait_ns) AS wait_ns FROM usable GROUP BY ALL
),
by_rank AS (
    SELECT m.job, m.rank, count(u.rank) AS collectives,
        count(*) FILTER (u.is_decided) AS decided,
        count(*) FILTER (u.is_decided AND u.last_rank = m.rank) AS times_last,
        coalesce(sum(c.wait_ns) FILTER (u.is_decided AND u.last_rank = m.rank), 0)::BIGINT
            AS caused_wait_ns,
        coalesce(sum(u.wait_ns) FILTER (u.is_decided), 0)::BIGINT AS suffered_wait_ns,
        avg(u.lateness_ns) AS mean_lateness_ns,
        median(u.lateness_ns) FILTER (u.is_decided AND u.last_rank = m.rank) AS when_last_ns
    FROM (SELECT DISTINCT job, rank FROM matched_collective) m
    LEFT JOIN usable u ON u.job = m.job AND u.rank = m.rank
    LEFT JOIN cost c
        ON c.job = u.job AND c.communicator = u.communicator AND c.sequence = u.sequence
    GROUP BY m.job, m.rank
),
shared AS (
    SELECT b.*, 100.0 * b.times_last / nullif(b.decided, 0) AS share_pct,
        100.0 * b.when_last_ns / l.iteration_ns AS lateness_pct,
        max(b.decided) OVER (PARTITION BY b.job) AS most_decided,
        max(b.collectives) OVER (PARTITION BY b.job) AS most_collectives,
        share_pct > getvariable('min_share_pct')::DOUBLE
            AND lateness_pct > getvariable('min_lateness_pct')::DOUBLE AS is_late
    FROM by_rank b LEFT JOIN iteration_length l USING (job)
),
clock AS (
    SELECT job, max(uncertainty_ns) AS uncertainty_ns FROM matched_collective GROUP BY job
),
evaluated AS (
    SELECT s.*, c.uncertainty_ns,
        CASE WHEN s.most_decided < getvariable('min_collectives')::BIGINT
                THEN 'not evaluable'
             WHEN bool_or(coalesce(s.is_late, false)) OVER same THEN 'same rank'
             ELSE 'rotating' END AS verdict,
        max_by(s.rank, s.times_last) OVER same AS most_often,
        max(s.times_last) OVER same AS most_times
    FROM shared s JOIN clock c USING (job)
    WINDOW same AS (PARTITION BY s.job)
)
SELECT j.job, j.rank, j.collectives, j.decided, j.times_last, j.share_pct AS share_last_pct,
    j.caused_wait_ns, j.suffered_wait_ns, j.mean_lateness_ns,
    j.when_last_ns AS median_lateness_when_last_ns, j.lateness_pct,
    j.verdict = 'same rank' AND coalesce(j.is_late, false) AS is_straggler, j.verdict,
    CASE WHEN j.most_collectives = 0 THEN 'no synchronizing collective is matched'
         WHEN j.verdict = 'not evaluable' THEN format(
            '{} of {} collectives have a start skew above the uncertainty of the clocks, {:.3f} ms',
            j.most_decided, j.most_collectives, j.uncertainty_ns / 1e6)
         ELSE format('rank {} is last in {} of {} decided collectives', j.most_often, j.most_times,
            j.most_decided) END
        || coalesce('; rank ' || r.missing_ranks || ' is missing', '') AS reason,
    o.method AS clock, j.uncertainty_ns, r.missing_ranks
FROM evaluated j
JOIN job_ranks r ON r.job = j.job
LEFT JOIN clock_offset o ON o.job = j.job AND o.rank = j.rank
