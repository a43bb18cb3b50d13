/*
title    = "Links measured before jobs"
question = "Which link and host did the benchmark of tbd-trace collect --ranks find?"
source   = """all-reduces at each rate of job.json: usable share at the rate with the largest one,
    median of the latencies; all-reduces of 16 MiB without a limit"""
grain    = "trace of a job whose links were limited and measured"
needs    = ["job_point"]
returns = ["trace_id", "link_efficiency", "all_reduce_s", "host_bytes_per_s"]
[file]
param = "layers"
columns = {}
rows = """SELECT NULL::VARCHAR AS trace_id, NULL::DOUBLE AS link_efficiency,
    NULL::DOUBLE AS all_reduce_s, NULL::DOUBLE AS host_bytes_per_s WHERE false"""
[columns]
link_efficiency = "bus bandwidth of the largest all-reduce ÷ limit of the rate, at most 1"
all_reduce_s = {unit = "s", doc = "duration of the smallest all-reduce"}
host_bytes_per_s = """bytes of gradients that the host reduces per second;
    NULL when unknown"""
*/
SELECT trace_id, least(1, max(8 * busbw_bytes_per_s / bandwidth_bits_per_s)) AS link_efficiency,
    median(all_reduce_s) AS all_reduce_s, any_value(host_bytes_per_s) AS host_bytes_per_s
FROM job_point
WHERE world_size > 1 AND bandwidth_bits_per_s > 0 AND busbw_bytes_per_s > 0
GROUP BY trace_id
