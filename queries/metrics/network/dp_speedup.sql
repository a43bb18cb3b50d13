/*
title    = "Speed-up by data parallelism"
question = "Is it worth adding GPUs, and how fast must the network be? Was the prediction right?"
source   = """model of one worker's layers with ring all-reduce, co-located parameter servers or
    sharded parameters; Poseidon (Zhang et al. 2017), P3 (Jayarajan et al. 2019), ZeRO (Rajbhandari
    et al. 2020), FSDP (Zhao et al. 2023)"""
grain    = "number of workers, bandwidth and scheme"
needs    = ["_dp_run"]
optional = ["_dp_setting", "_dp_layer", "_dp_link", "_dp_bound", "measured_speedup"]
macros   = ["parameter_server", "sharded_parameters"]
[params.bandwidth_gbit]
doc = """bandwidths of the link of each worker in Gbit/s, separated by commas; those of measurements
    are added"""
default = "1,5,10,25,100,400"
items = "number"
minimum = 0.000001
[columns]
trace_id = "the trace, or the name of the layer list"
scheme = "how gradients are exchanged: ddp, serial, ps, p3, fsdp"
workers = "number of workers, each with a batch as large as that of the one measured"
bandwidth_gbit = {unit = "Gbit/s", doc = "bandwidth of the link of each worker"}
iteration_s = {unit = "s", doc = "duration of an iteration"}
iteration_low_s = {unit = "s", doc = """shortest with link_efficiency off by uncertainty_pct and the
    computation of one worker as short or long as the 5th or 95th percentile of its iterations"""}
iteration_high_s = {unit = "s", doc = "longest of these"}
exposed_s = {unit = "s", doc = "part of it that waits for communication"}
compute_s = {unit = "s", doc = "iteration of one worker"}
speedup = "throughput ÷ throughput of one worker"
speedup_low = "lowest with the same uncertainties"
speedup_high = "highest of these"
band = """what low and high contain: link, or link and iterations; the percentiles of fewer than 10
    iterations are left out"""
efficiency = "speed-up ÷ workers"
limited_by = "compute (communication is hidden), link, or host (host_bytes_per_s)"
measured_s = {unit = "s", doc = """shortest measured iteration (measured_speedup); NULL without a
    measurement"""}
measured_speedup = "measured throughput ÷ that of one worker, by their shortest iterations"
error_pct = "iteration_s ÷ measured_s − 1"
measured_by = "job.json, or ranks: iterations of the traces of a job; NULL without a measurement"
evidence = "modelled"
inputs = "origin of times and gradient bytes"
[plot]
kind = "line"
x = "bandwidth_gbit"
y = ["speedup"]
band = ["speedup_low", "speedup_high"]
points = "measured_speedup"
series = ["scheme", "workers"]
log = ["x"]
x_title = "bandwidth (Gbit/s)"
*/
WITH
wanted AS (
    SELECT c.scheme, w.workers
    FROM (SELECT unnest(schemes) AS scheme FROM _dp_setting) c
    CROSS JOIN (SELECT unnest(workers) AS workers FROM _dp_setting) w
),
place AS (
    SELECT r.trace_id, w.scheme, w.workers, b.bandwidth_gbit
    FROM _dp_run r
    CROSS JOIN wanted w
    CROSS JOIN (
        SELECT unnest(list_distinct(string_split(
            getvariable('bandwidth_gbit'), ',')::DOUBLE[]))
            AS bandwidth_gbit
    ) b
    UNION
    SELECT m.trace_id, m.scheme, m.workers, m.bandwidth_gbit
    FROM measured_speedup m JOIN wanted USING (scheme, workers)
    WHERE m.bandwidth_gbit > 0
),
-- Computation that takes `scale` times as long: communication is as much shorter, in that unit.
asked AS (
    SELECT p.*, r.alone_s, concat_ws(', ', r.evidence, l.evidence) AS inputs, r.band, v.side,
        v.scale, s.latency_s / v.scale AS latency_s, l.host_byte_s / v.scale AS host_byte_s,
        coalesce(l.all_reduce_s, 2 * (p.workers - 1) * s.latency_s) / v.scale AS all_reduce_s,
        16e-9 * (p.workers - 1) / p.workers
            / (l.link_efficiency * (1 + v.side * s.uncertainty) * p.bandwidth_gbit * v.scale)
            ::DOUBLE AS link_byte_s
    FROM place p
    JOIN _dp_run r USING (trace_id)
    JOIN _dp_link l USING (trace_id)
    CROSS JOIN _dp_setting s
    CROSS JOIN LATERAL (
        SELECT 0 AS side, 1.0::DOUBLE AS scale
        UNION ALL
        SELECT unnest([-1, 1]), unnest([r.shortest, r.shortest])
        UNION
        SELECT unnest([-1, 1]), unnest([r.longest, r.longest])
    ) v
),
point AS MATERIALIZED (
    SELECT *, greatest(link_byte_s, host_byte_s) AS byte_s,
        row_number() OVER (ORDER BY trace_id, scheme, workers, bandwidth_gbit, side, scale) AS id
    FROM asked
),
served AS MATERIALIZED (SELECT * FROM point WHERE scheme IN ('ps', 'p3', 'fsdp') AND workers > 1),
ended AS (
    SELECT id, end_s FROM parameter_server_end('served')
    UNION ALL
    SELECT id, end_s FROM sharded_end('served')
    UNION ALL
    SELECT p.id, max(b.start_s + b.all_reduces * p.all_reduce_s + b.bytes * p.byte_s)
    FROM point p JOIN _dp_bound b USING (trace_id, scheme)
    WHERE p.workers > 1 GROUP BY p.id
),
side AS (
    SELECT p.*, p.scale * greatest(p.alone_s, coalesce(e.end_s, 0)) AS iteration_s,
        p.workers * p.alone_s / nullif(greatest(p.alone_s, coalesce(e.end_s, 0)), 0) AS speedup
    FROM point p LEFT JOIN ended e USING (id)
),
answer AS (
    SELECT trace_id, scheme, workers, bandwidth_gbit, inputs, band, any_value(alone_s) AS compute_s,
        any_value(iteration_s) FILTER (side = 0) AS iteration_s,
        min(iteration_s) AS iteration_low_s, max(iteration_s) AS iteration_high_s,
        any_value(speedup) FILTER (side = 0) AS speedup, min(speedup) AS speedup_low,
        max(speedup) AS speedup_high,
        any_value(host_byte_s >= link_byte_s) FILTER (side = 0) AS is_host
    FROM side GROUP BY ALL
)
SELECT t.trace_id, t.scheme, t.workers, t.bandwidth_gbit, t.iteration_s,
    t.iteration_low_s, t.iteration_high_s, t.iteration_s - t.compute_s AS exposed_s, t.compute_s,
    t.speedup, t.speedup_low, t.speedup_high, t.band, t.speedup / t.workers AS efficiency,
    CASE WHEN t.iteration_s <= t.compute_s THEN 'compute' WHEN t.is_host THEN 'host' ELSE 'link' END
        AS limited_by,
    m.iteration_s AS measured_s, m.speedup AS measured_speedup,
    100 * (t.iteration_s / m.iteration_s - 1) AS error_pct, m.source AS measured_by,
    'modelled' AS evidence, t.inputs
FROM answer t
LEFT JOIN measured_speedup m
    ON  m.trace_id = t.trace_id AND m.scheme = t.scheme AND m.workers = t.workers
    AND m.bandwidth_gbit = t.bandwidth_gbit
ORDER BY t.trace_id, list_position(['ddp', 'serial', 'ps', 'p3', 'fsdp'], t.scheme), t.workers,
    t.bandwidth_gbit
