/*
title    = "Collectives that ranks have not finished"
question = "Which ranks finished each collective, which wait in it, and which never called it?"
source   = "dumps of PyTorch's Flight Recorder; members of a group with gloo: ranks that used it"
grain    = "collective of a process group"
needs    = ["flight_rank", "flight_call", "flight_position"]
returns = [
    "job", "group_name", "group_description", "sequence", "operation", "finished", "waiting",
    "not_called", "without_records", "unknown", "line", "called_utc",
]
[columns]
job = "the job"
group_name = "process group"
sequence = "number of the collective in its group"
operation = "operation, as most ranks called it"
finished = "ranks in which it has ended; with gloo also by a failure"
waiting = "ranks in which it has not ended"
not_called = "ranks that did not call it before their dump"
without_records = "ranks with an empty dump or none"
unknown = "ranks whose dump does not show whether they called it"
line = "line of the program, as most ranks called it; NULL without stacks"
called_utc = "time of the first call, UTC"
*/
WITH
open_collective AS (
    SELECT DISTINCT c.job, c.group_name, c.sequence
    FROM flight_call c
    JOIN flight_position p ON p.job = c.job AND p.group_name = c.group_name
    WHERE NOT c.is_point_to_point AND (NOT c.is_retired OR p.entered < c.sequence)
),
state AS (
    SELECT o.job, o.group_name, o.sequence, p.group_description, p.rank,
        CASE WHEN k.dump <> 'records' THEN 'without records'
            WHEN NOT c.is_retired THEN 'waiting'
            WHEN c.is_retired OR p.entered >= o.sequence THEN 'finished'
            WHEN p.entered < o.sequence THEN 'not called'
            ELSE 'unknown' END AS state,
        c.operation, c.created_ns, c.file || ':' || c.line AS line
    FROM open_collective o
    JOIN flight_position p ON p.job = o.job AND p.group_name = o.group_name
    JOIN flight_rank k ON k.job = o.job AND k.rank = p.rank
    LEFT JOIN flight_call c
        ON  c.job = o.job AND c.group_name = o.group_name AND c.sequence = o.sequence
        AND c.rank = p.rank AND NOT c.is_point_to_point
)
SELECT job, group_name, any_value(group_description) AS group_description, sequence,
    mode(operation) AS operation,
    string_agg(rank, ', ' ORDER BY rank) FILTER (state = 'finished') AS finished,
    string_agg(rank, ', ' ORDER BY rank) FILTER (state = 'waiting') AS waiting,
    string_agg(rank, ', ' ORDER BY rank) FILTER (state = 'not called') AS not_called,
    string_agg(rank, ', ' ORDER BY rank) FILTER (state = 'without records') AS without_records,
    string_agg(rank, ', ' ORDER BY rank) FILTER (state = 'unknown') AS unknown,
    mode(line) AS line,
    strftime(make_timestamp_ns(min(created_ns)), '%Y-%m-%d %H:%M:%S.%g') AS called_utc
FROM state
GROUP BY job, group_name, sequence
ORDER BY job, min(created_ns), group_name, sequence
