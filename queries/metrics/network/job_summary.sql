/*
title    = "Jobs"
question = "Which ranks of each distributed job are here, and can they be compared?"
source   = "ranks and world sizes of the traces; collectives matched across them"
grain    = "job"
needs    = ["job_member"]
optional = ["job_ranks", "iteration", "matched_collective", "clock_offset"]
returns = [
    "job", "world_size", "ranks_present", "present", "missing_ranks", "complete",
    "iterations_matched", "collectives", "collectives_matched", "backend", "hosts", "rank_evidence",
    "clock", "clock_uncertainty_ns", "problems",
]
[columns]
job = "name given to `ingest --job`; without one, the folder of the trace, else its name"
missing_ranks = "ranks without a trace, the first 64; NULL if there is none"
complete = """true if each rank has one trace; NULL if none is known to be missing but the size is
    unknown"""
iterations_matched = "iterations that all ranks have; NULL if a rank has none"
collectives = "collectives of communicators of several ranks"
collectives_matched = "those in which all present ranks agree"
backend = "library of the collectives; NULL when unknown"
hosts = "number of hosts; NULL when unknown"
rank_evidence = "origin of the ranks: distributedInfo, file name, process and device"
clock = "how the clocks are aligned; NULL with less than two ranks"
clock_uncertainty_ns = "largest uncertainty of the clocks"
problems = "faults of the traces of the job, and rows left out because of them; NULL without any"
*/
WITH
about AS (
    SELECT job, string_agg(DISTINCT backend, ', ' ORDER BY backend) AS backend,
        nullif(count(DISTINCT host), 0) AS hosts,
        string_agg(DISTINCT evidence, ', ' ORDER BY evidence) AS rank_evidence
    FROM job_member GROUP BY job
),
iterations_of AS (
    SELECT m.job, m.rank, count(i.iteration) AS iterations
    FROM job_member m
    LEFT JOIN iteration i
        ON  i.trace_id = m.trace_id
        AND (m.process_id IS NULL OR i.process_id = m.process_id)
    WHERE NOT m.is_duplicate GROUP BY m.job, m.rank
),
iterations AS (
    SELECT o.job, nullif(min(o.iterations), 0) AS matched,
        string_agg(CASE WHEN o.iterations < h.most THEN format(
            'rank {} has {} of {} iterations: the last ones of the others are left out',
            o.rank, o.iterations, h.most) END, '; ' ORDER BY o.rank) AS why
    FROM iterations_of o
    JOIN (SELECT job, max(iterations) AS most FROM iterations_of GROUP BY job) h USING (job)
    GROUP BY o.job
),
collective_once AS (
    SELECT job, communicator, sequence, any_value(mismatch) AS mismatch
    FROM matched_collective GROUP BY ALL
),
matched AS (
    SELECT job, count(*) AS collectives, count(*) FILTER (mismatch IS NULL) AS collectives_matched,
        CASE WHEN count(mismatch) > 0
            THEN format('collectives not matched: {}; number {} of {}: {}', count(mismatch),
                arg_min(sequence, sequence) FILTER (mismatch IS NOT NULL),
                arg_min(communicator, sequence) FILTER (mismatch IS NOT NULL),
                arg_min(mismatch, sequence) FILTER (mismatch IS NOT NULL)) END AS why
    FROM collective_once GROUP BY job
),
clock AS (
    SELECT job, string_agg(DISTINCT method, ', ' ORDER BY method)
            FILTER (method <> 'reference') AS clock,
        max(uncertainty_ns) AS uncertainty_ns
    FROM clock_offset GROUP BY job
)
SELECT r.job, r.world_size, r.ranks_present, r.present, r.missing_ranks,
    CASE WHEN r.ranks_missing > 0 OR r.problems IS NOT NULL THEN false
         WHEN r.world_size IS NOT NULL THEN true END AS complete,
    i.matched AS iterations_matched, coalesce(m.collectives, 0) AS collectives,
    coalesce(m.collectives_matched, 0) AS collectives_matched, a.backend, a.hosts,
    a.rank_evidence, c.clock, c.uncertainty_ns AS clock_uncertainty_ns,
    nullif(concat_ws('; ', r.problems, i.why, m.why), '') AS problems
FROM job_ranks r
JOIN about a USING (job)
LEFT JOIN iterations i USING (job)
LEFT JOIN matched m USING (job)
LEFT JOIN clock c USING (job)
ORDER BY r.job
