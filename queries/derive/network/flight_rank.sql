/*
title    = "Ranks and their Flight Recorder dumps"
question = "Which rank of each job wrote a dump, and what does it have?"
grain    = "rank of a job"
needs    = ["trace", "job_rank"]
optional = ["flight_record", "flight_group"]
returns = [
    "job", "rank", "world_size", "trace_id", "dump", "records", "is_partial", "unrecorded",
    "written_ns",
]
[columns]
job = "name of the job; `dumps` for dumps without one"
rank = "rank: of a dump, or below the number of ranks of the job"
world_size = """ranks of the job, by its process groups or the shape of an all-gather; NULL if
    unknown"""
trace_id = "its dump; NULL without one"
dump = "records, no records, empty file, or missing"
records = "operations in the dump"
is_partial = "true if the dump leaves out operations that have ended; NULL without records"
unrecorded = "operations that the recorder left out, as gloo's sends and receives"
written_ns = "time at which the dump was written, UTC; NULL when unknown"
[advice]
missing = """needs dumps of PyTorch's Flight Recorder; record them with
`tbd-trace collect --ranks N`, or set TORCH_FR_BUFFER_SIZE=2000"""
*/
WITH
dump AS (
    SELECT coalesce(j.job, 'dumps') AS job, j.rank, j.world_size, t.trace_id, t.capture
    FROM trace t JOIN job_rank j ON j.trace_id = t.trace_id
    WHERE t.format = 'flight-recorder-dump' AND j.rank IS NOT NULL
),
recorded AS (
    SELECT trace_id, count(*) AS records,
        -- A complete dump has the first collectives, or some that have ended.
        NOT bool_or(is_retired) AND coalesce(max(sequence) > count(*), true) AS is_partial,
        -- The output of an all-gather of the whole job has a part of each rank.
        max(from_json(output_shapes, '[["BIGINT"]]')[1][1]) FILTER (
            group_description = 'default_pg' AND operation LIKE '%all_gather'
            AND len(from_json(output_shapes, '[["BIGINT"]]')[1])
                = len(from_json(input_shapes, '[["BIGINT"]]')[1]) + 1) AS gathered
    FROM flight_record GROUP BY trace_id
),
unrecorded AS (
    SELECT trace_id, sum(skipped)::BIGINT AS skipped
    FROM (
        SELECT trace_id, group_name, max(operation_id - sequence) AS skipped
        FROM flight_record WHERE backend = 'gloo' GROUP BY trace_id, group_name
    ) GROUP BY trace_id
),
listed AS (
    SELECT trace_id, 1 + max(list_max(from_json(ranks, '["BIGINT"]'))) AS ranks
    FROM flight_group GROUP BY trace_id
),
job_size AS (
    SELECT job, greatest(max(d.world_size), max(l.ranks), max(r.gathered)) AS world_size,
        greatest(1 + max(rank), max(d.world_size), max(l.ranks), max(r.gathered)) AS ranks
    FROM dump d
    LEFT JOIN listed l ON l.trace_id = d.trace_id
    LEFT JOIN recorded r ON r.trace_id = d.trace_id
    GROUP BY job
),
member AS (
    SELECT job, world_size, unnest(range(least(ranks, 100000))) AS rank FROM job_size
),
empty_file AS (
    SELECT DISTINCT job, unnest(from_json(capture->'empty_ranks', '["BIGINT"]')) AS rank
    FROM dump
)
SELECT m.job, m.rank, m.world_size, d.trace_id,
    CASE WHEN r.records > 0 THEN 'records'
        WHEN d.trace_id IS NOT NULL THEN 'no records'
        WHEN e.rank IS NOT NULL THEN 'empty file'
        ELSE 'missing' END AS dump,
    coalesce(r.records, 0) AS records, r.is_partial, coalesce(u.skipped, 0) AS unrecorded,
    (d.capture->>'written_ns')::BIGINT AS written_ns
FROM member m
LEFT JOIN dump d ON d.job = m.job AND d.rank = m.rank
LEFT JOIN empty_file e ON e.job = m.job AND e.rank = m.rank
LEFT JOIN recorded r ON r.trace_id = d.trace_id
LEFT JOIN unrecorded u ON u.trace_id = d.trace_id
