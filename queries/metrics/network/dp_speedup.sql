/*
title    = "Speed-up by data parallelism"
question = "Is it worth adding GPUs, and how fast must the network be?"
source   = """model of one worker's layers with ring all-reduce or co-located parameter servers;
    Poseidon (Zhang et al. 2017), P3 (Jayarajan et al. 2019)"""
grain    = "number of workers, bandwidth and scheme"
needs    = ["layer_cost"]
optional = ["_dp_setting", "_dp_layer", "_dp_run", "_dp_bound"]
macros   = ["parameter_server"]
[params.bandwidth_gbit]
doc = "bandwidths of the link of each worker in Gbit/s, separated by commas"
default = "1,5,10,25,100,400"
items = "number"
minimum = 0.000001
[columns.trace_id]
doc = "the trace, or the name of the layer list"
[columns.scheme]
doc = "how gradients are exchanged: ddp, serial, ps, p3"
[columns.workers]
doc = "number of workers, each with a batch as large as that of the one measured"
[columns.bandwidth_gbit]
unit = "Gbit/s"
doc = "bandwidth of the link of each worker"
[columns.iteration_s]
unit = "s"
doc = "duration of an iteration"
[columns.exposed_s]
unit = "s"
doc = "part of it that waits for communication"
[columns.compute_s]
unit = "s"
doc = "iteration of one worker"
[columns.speedup]
doc = "throughput ÷ throughput of one worker"
[columns.speedup_low]
doc = "with link_efficiency lower by uncertainty_pct"
[columns.speedup_high]
doc = "with link_efficiency higher by uncertainty_pct"
[columns.efficiency]
doc = "speed-up ÷ workers"
[columns.limited_by]
doc = "compute (communication is hidden), link, or host (host_bytes_per_s)"
[columns.evidence]
doc = "modelled"
[columns.inputs]
doc = "origin of times and gradient bytes"
[plot]
kind = "line"
x = "bandwidth_gbit"
y = ["speedup"]
series = ["scheme", "workers"]
log = ["x"]
x_title = "bandwidth (Gbit/s)"
*/
WITH
asked AS (
    SELECT r.trace_id, r.alone_s, r.evidence AS inputs, c.scheme, w.workers, b.bandwidth_gbit,
        s.latency_s, v.side, s.host_byte_s,
        coalesce(s.all_reduce_s, 2 * (w.workers - 1) * s.latency_s) AS all_reduce_s,
        16e-9 * (w.workers - 1) / w.workers
            / (s.link_efficiency * (1 + v.side * s.uncertainty) * b.bandwidth_gbit)::DOUBLE
            AS link_byte_s
    FROM _dp_run r
    CROSS JOIN _dp_setting s
    CROSS JOIN (SELECT unnest(schemes) AS scheme FROM _dp_setting) c
    CROSS JOIN (SELECT unnest(workers) AS workers FROM _dp_setting) w
    CROSS JOIN (
        SELECT unnest(list_distinct(string_split(
            coalesce(getvariable('bandwidth_gbit'), '1,5,10,25,100,400'), ',')::DOUBLE[]))
            AS bandwidth_gbit
    ) b
    CROSS JOIN (VALUES (-1), (0), (1)) v(side)
),
point AS MATERIALIZED (
    SELECT *, greatest(link_byte_s, host_byte_s) AS byte_s,
        row_number() OVER (ORDER BY trace_id, scheme, workers, bandwidth_gbit, side) AS id
    FROM asked
),
served AS MATERIALIZED (SELECT * FROM point WHERE scheme IN ('ps', 'p3') AND workers > 1),
ended AS (
    SELECT id, end_s FROM parameter_server_end('served')
    UNION ALL
    SELECT p.id, max(b.start_s + b.all_reduces * p.all_reduce_s + b.bytes * p.byte_s)
    FROM point p JOIN _dp_bound b USING (trace_id, scheme)
    WHERE p.workers > 1 GROUP BY p.id
),
side AS (
    SELECT p.*, greatest(p.alone_s, coalesce(e.end_s, 0)) AS iteration_s,
        p.workers * p.alone_s / nullif(greatest(p.alone_s, coalesce(e.end_s, 0)), 0) AS speedup
    FROM point p LEFT JOIN ended e USING (id)
),
told AS (
    SELECT trace_id, scheme, workers, bandwidth_gbit, inputs, any_value(alone_s) AS compute_s,
        any_value(iteration_s) FILTER (side = 0) AS iteration_s,
        any_value(speedup) FILTER (side = 0) AS speedup, min(speedup) AS speedup_low,
        max(speedup) AS speedup_high,
        any_value(host_byte_s >= link_byte_s) FILTER (side = 0) AS is_host
    FROM side GROUP BY ALL
)
SELECT trace_id, scheme, workers, bandwidth_gbit, iteration_s,
    iteration_s - compute_s AS exposed_s, compute_s, speedup, speedup_low, speedup_high,
    speedup / workers AS efficiency,
    CASE WHEN iteration_s <= compute_s THEN 'compute' WHEN is_host THEN 'host' ELSE 'link' END
        AS limited_by,
    'modelled' AS evidence, inputs
FROM told
ORDER BY trace_id, list_position(['ddp', 'serial', 'ps', 'p3'], scheme), workers, bandwidth_gbit
