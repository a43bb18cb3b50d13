/*
title    = "Progress of ranks in process groups"
question = "How many collectives of each process group has each rank called?"
source   = "calls; counters of the group where calls were left out or overwritten"
grain    = "rank of a process group"
needs    = ["flight_rank"]
optional = ["flight_call", "flight_group"]
returns = ["job", "group_name", "group_description", "rank", "entered", "completed"]
[columns]
job = "the job"
group_name = "the process group"
rank = "member of the group"
entered = "number of the last collective that it called, 0 before the first; NULL when unknown"
completed = """number of the last collective before the first one that has not ended; NULL when
    unknown"""
*/
WITH
configured AS (
    SELECT k.job, g.group_name, unnest(from_json(g.ranks, '["BIGINT"]')) AS rank
    FROM flight_group g JOIN flight_rank k ON k.trace_id = g.trace_id
    WHERE g.group_name <> ''
),
process_group AS (
    SELECT job, group_name, max(group_description) AS group_description,
        bool_or(is_point_to_point) AS has_point_to_point
    FROM flight_call GROUP BY job, group_name
),
member AS (
    SELECT DISTINCT job, group_name, rank
    FROM (
        SELECT job, group_name, rank FROM configured
        UNION ALL
        SELECT job, group_name, rank FROM flight_call
        UNION ALL
        -- gloo does not record the ranks of groups.
        SELECT g.job, g.group_name, k.rank
        FROM process_group g JOIN flight_rank k ON k.job = g.job
        WHERE g.group_description = 'default_pg'
    )
    WHERE (job, group_name) IN (SELECT (job, group_name) FROM process_group)
),
called AS (
    SELECT job, group_name, rank, max(sequence) AS last_call,
        min(sequence) FILTER (NOT is_retired) AS first_open
    FROM flight_call WHERE NOT is_point_to_point GROUP BY job, group_name, rank
),
counter AS (
    -- Counters of groups with sends and receives count these, too; so do gloo's.
    SELECT k.job, g.group_name, k.rank, max(g.last_enqueued) AS last_enqueued
    FROM flight_group g
    JOIN flight_rank k ON k.trace_id = g.trace_id
    JOIN process_group p ON p.job = k.job AND p.group_name = g.group_name
    WHERE NOT p.has_point_to_point AND k.unrecorded = 0 AND g.evidence IS NOT NULL
    GROUP BY k.job, g.group_name, k.rank
),
progress AS (
    SELECT m.job, m.group_name, m.rank, c.first_open,
        greatest(c.last_call, n.last_enqueued,
            CASE WHEN NOT k.is_partial THEN 0 END) AS entered
    FROM member m
    JOIN flight_rank k ON k.job = m.job AND k.rank = m.rank
    LEFT JOIN called c ON c.job = m.job AND c.group_name = m.group_name AND c.rank = m.rank
    LEFT JOIN counter n ON n.job = m.job AND n.group_name = m.group_name AND n.rank = m.rank
)
SELECT p.job, p.group_name, g.group_description, p.rank, p.entered,
    coalesce(p.first_open - 1, p.entered) AS completed
FROM progress p JOIN process_group g ON g.job = p.job AND g.group_name = p.group_name
