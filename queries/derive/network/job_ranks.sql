/*
title    = "Ranks present in jobs"
question = "Which ranks of each job have a trace, and which are missing?"
grain    = "job"
needs    = ["job_member"]
optional = ["job_rank", "trace"]
returns = [
    "job", "world_size", "ranks_present", "present", "missing_ranks", "ranks_missing", "problems",
]
[columns]
job = "the job"
ranks_present = "ranks with a trace"
present = "those ranks, the first 64"
missing_ranks = """ranks below the world size, or below the highest rank, without a trace, the first
    64"""
ranks_missing = "their number"
problems = "ranks with several traces, traces of unknown rank, differing world sizes"
*/
WITH
size AS (
    SELECT job, max(world_size) AS world_size, greatest(max(world_size), max(rank) + 1) AS expected,
        count(DISTINCT rank) AS ranks_present,
        list_sort(list(DISTINCT rank)) AS ranks,
        list_sort(list(DISTINCT world_size)) AS world_sizes
    FROM job_member GROUP BY job
),
duplicate AS (
    SELECT job, string_agg(why, '; ' ORDER BY rank) AS why
    FROM (
        SELECT m.job, m.rank, format('rank {} in {}', m.rank,
            string_agg(t.name, ' and ' ORDER BY t.name)) AS why
        FROM job_member m JOIN trace t ON t.trace_id = m.trace_id
        WHERE m.is_duplicate GROUP BY m.job, m.rank
    ) GROUP BY job
),
unknown AS (
    SELECT r.job, 'rank unknown: ' || string_agg(t.name, ', ' ORDER BY t.name) AS why
    FROM job_rank r JOIN trace t ON t.trace_id = r.trace_id
    WHERE r.rank IS NULL AND r.job IS NOT NULL AND t.kind = 'timeline' GROUP BY r.job
),
missing AS (
    SELECT job, list(rank ORDER BY rank) AS ranks
    FROM (SELECT job, ranks, unnest(range(least(expected, 100000))) AS rank FROM size)
    WHERE NOT list_contains(ranks, rank) GROUP BY job
)
SELECT s.job, s.world_size, s.ranks_present, array_to_string(s.ranks[:64], ', ') AS present,
    nullif(array_to_string(m.ranks[:64], ', '), '') AS missing_ranks,
    coalesce(s.expected - s.ranks_present, 0) AS ranks_missing,
    nullif(concat_ws('; ', d.why, u.why,
        CASE WHEN len(s.world_sizes) > 1
            THEN 'world sizes differ: ' || array_to_string(s.world_sizes, ', ') END), '')
        AS problems
FROM size s
LEFT JOIN missing m USING (job)
LEFT JOIN duplicate d USING (job)
LEFT JOIN unknown u USING (job)
