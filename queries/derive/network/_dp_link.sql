/*
title    = "Link of a prediction"
question = "Which link, and which host, does the prediction for a trace assume?"
source   = "parameters, else the benchmark of the job, else an ideal link"
grain    = "trace or layer list"
needs    = ["layer_cost", "_dp_setting"]
optional = ["job_link"]
[columns]
trace_id = "the trace or layer list"
link_efficiency = "usable share of the bandwidth"
host_byte_s = {unit = "s", doc = "time of the host per byte of gradients; 0: no limit"}
all_reduce_s = {unit = "s", doc = """duration of an all-reduce of few bytes; NULL: 2 (N − 1)
    latencies"""}
evidence = "job.json if the benchmark of the job is used; NULL otherwise"
*/
SELECT c.trace_id, coalesce(s.link_efficiency, l.link_efficiency, 1) AS link_efficiency,
    coalesce(s.host_byte_s, 1 / l.host_bytes_per_s, 0) AS host_byte_s,
    coalesce(s.all_reduce_s, l.all_reduce_s) AS all_reduce_s,
    CASE WHEN l.trace_id IS NOT NULL AND (s.link_efficiency IS NULL OR s.host_byte_s IS NULL
        OR s.all_reduce_s IS NULL) THEN 'job.json' END AS evidence
FROM (SELECT DISTINCT trace_id FROM layer_cost) c
CROSS JOIN _dp_setting s
LEFT JOIN job_link l ON l.trace_id = c.trace_id
