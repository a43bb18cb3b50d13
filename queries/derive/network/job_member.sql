/*
title    = "Ranks of jobs"
question = "Which trace is which rank of which distributed job?"
source   = """table job_rank; in a trace of several GPUs without a rank, each process and device
    with collectives is a rank"""
grain    = "rank of a job"
needs    = ["trace"]
optional = ["job_rank", "collective"]
returns = [
    "job", "rank", "trace_id", "process_id", "device_id", "world_size", "backend", "host",
    "evidence", "is_duplicate",
]
[columns]
job = "name of the job; without one, the folder of the trace, else its name"
rank = "rank"
trace_id = "the trace"
process_id = "key of the process of this rank; NULL if the whole trace is one rank"
device_id = "device of this rank; NULL if the whole trace is one rank"
backend = "nccl, gloo or mpi; NULL when unknown"
evidence = "origin of the rank: distributedInfo, file name, process and device"
is_duplicate = """true if several traces of the job have this rank; comparisons of ranks leave them
    out"""
[advice]
missing = """needs traces of ranks; ingest them together with
`tbd-trace ingest --job NAME DIRECTORY`"""
*/
WITH
by_trace AS (
    SELECT coalesce(
            r.job, nullif(regexp_extract(t.name, '^(.+)/[^/]+$', 1), ''), t.name) AS job,
        r.rank, t.trace_id, NULL::BIGINT AS process_id, NULL::INTEGER AS device_id, r.world_size,
        r.backend, r.host, r.evidence
    FROM job_rank r JOIN trace t ON t.trace_id = r.trace_id
    WHERE r.rank IS NOT NULL AND t.kind = 'timeline'
),
by_device AS (
    SELECT t.name AS job,
        row_number() OVER same - 1 AS rank, c.trace_id, c.process_id, c.device_id,
        count(*) OVER (PARTITION BY c.trace_id) AS world_size, NULL::VARCHAR AS backend,
        NULL::VARCHAR AS host, 'process and device' AS evidence
    FROM (SELECT DISTINCT trace_id, process_id, device_id FROM collective WHERE source = 'kernel') c
    JOIN trace t ON t.trace_id = c.trace_id
    WHERE c.trace_id NOT IN (SELECT trace_id FROM by_trace)
    WINDOW same AS (PARTITION BY c.trace_id ORDER BY c.device_id, c.process_id)
)
SELECT *, count(*) OVER (PARTITION BY job, rank) > 1 AS is_duplicate
FROM (
    FROM by_trace
    UNION ALL
    SELECT * FROM by_device WHERE world_size > 1
)
