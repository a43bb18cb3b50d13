/*
title    = "Collectives by rank, in order"
question = "Which is the k-th collective of each rank in each communicator?"
source   = """recorded sequence numbers where all are known and unique; else the order of time"""
grain    = "collective of a rank of a job"
needs    = ["job_member", "collective", "trace"]
returns = [
    "job", "communicator", "rank", "position", "is_recorded", "kind", "is_synchronizing", "bytes",
    "source", "trace_id", "collective_id", "start_ns", "end_ns", "utc_start_ns", "host",
]
[columns]
job = "the job"
communicator = "process group or stream"
rank = "the rank"
position = "number in the communicator"
is_recorded = "true if the profile records the numbers"
kind = "kind of collective"
is_synchronizing = "true if no rank can end before all have begun"
bytes = {unit = "byte", doc = "bytes of the collective; NULL when unknown"}
collective_id = "the collective in its trace"
start_ns = "start, clock of the trace"
end_ns = "end, clock of the trace"
*/
WITH of_rank AS (
    SELECT m.job, c.communicator, m.rank, c.sequence, c.kind,
        coalesce(c.is_synchronizing, false) AS is_synchronizing, c.bytes, c.source, c.trace_id,
        c.collective_id, c.start_ns, c.end_ns, t.utc_start_ns, m.host,
        count(DISTINCT c.sequence) OVER own = count(*) OVER own AS is_recorded,
        row_number() OVER (
            PARTITION BY m.job, m.rank, c.communicator ORDER BY c.start_ns, c.collective_id) - 1
            AS number
    FROM collective c
    JOIN job_member m
        ON  m.trace_id = c.trace_id
        AND (m.process_id IS NULL OR m.process_id IS NOT DISTINCT FROM c.process_id
             AND m.device_id IS NOT DISTINCT FROM c.device_id)
    JOIN trace t ON t.trace_id = c.trace_id
    WHERE NOT m.is_duplicate
    WINDOW own AS (PARTITION BY m.job, m.rank, c.communicator)
)
SELECT job, communicator, rank,
    CASE WHEN bool_and(is_recorded) OVER (PARTITION BY job, communicator) THEN sequence
         ELSE number END AS position,
    bool_and(is_recorded) OVER (PARTITION BY job, communicator) AS is_recorded,
    kind, is_synchronizing, bytes, source, trace_id, collective_id, start_ns, end_ns,
    utc_start_ns, host
FROM of_rank
