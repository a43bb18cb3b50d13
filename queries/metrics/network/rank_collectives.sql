/*
title    = "Collectives in which ranks wait"
question = "In which collective does each rank of a job wait, and since when?"
source   = "first call of each Flight Recorder dump that has not ended, else the last call"
grain    = "rank of a job"
needs    = ["flight_rank"]
optional = ["flight_call"]
returns = [
    "job", "rank", "dump", "state", "operation", "group_name", "group_description", "sequence",
    "line", "called_utc",
]
[columns]
job = "the job"
rank = "rank"
state = """waiting: the call has not ended; idle: its last call has ended, with gloo also by a
    failure; NULL without records"""
operation = "operation of the call"
group_name = "process group of the call"
sequence = "number of the collective in its group"
line = "line of the program; NULL without stacks"
called_utc = "time of the call, UTC"
*/
SELECT k.job, k.rank, k.dump,
    CASE WHEN c.is_retired THEN 'idle' WHEN NOT c.is_retired THEN 'waiting' END AS state,
    c.operation, c.group_name, c.group_description, c.sequence, c.file || ':' || c.line AS line,
    strftime(make_timestamp_ns(c.created_ns), '%Y-%m-%d %H:%M:%S.%g') AS called_utc
FROM flight_rank k
LEFT JOIN (
    SELECT * FROM flight_call
    QUALIFY row_number() OVER (
        PARTITION BY job, rank
        ORDER BY is_retired, CASE WHEN is_retired THEN -position ELSE position END) = 1
) c ON c.job = k.job AND c.rank = k.rank
ORDER BY k.job, k.rank
