/*
title    = "Smallest acceptable bandwidth"
question = "How fast must the network be for a number of workers to be worth it?"
source   = """inverse of dp_speedup: exact for ddp and serial, whose iteration is a maximum of
    straight lines; a search for ps, p3 and fsdp"""
grain    = "number of workers, target and scheme"
needs    = ["_dp_run"]
optional = ["_dp_setting", "_dp_layer", "_dp_link", "_dp_bound", "measured_speedup"]
macros   = ["parameter_server", "sharded_parameters", "bandwidth_search"]
[params.target_efficiency]
doc = "wanted speed-up ÷ workers, several separated by commas"
default = "0.5,0.8,0.9"
items = "number"
minimum = 0.000001
[params.target_speedup]
doc = "wanted speed-ups, separated by commas; they replace target_efficiency"
default = ""
items = "number"
minimum = 0.000001
[columns]
trace_id = "the trace, or the name of the layer list"
scheme = "how gradients are exchanged: ddp, serial, ps, p3, fsdp"
workers = "number of workers, each with a batch as large as that of the one measured"
target_speedup = "wanted speed-up"
target = "the target as asked: × speed-up, or speed-up ÷ workers in percent"
min_gbit_s = {unit = "Gbit/s", doc = """smallest bandwidth with this speed-up; NULL if none is
    enough"""}
min_low_gbit_s = {unit = "Gbit/s", doc = """lowest with link_efficiency off by uncertainty_pct and
    the computation of one worker as short or long as the 5th or 95th percentile of its iterations;
    NULL if min_gbit_s is"""}
min_high_gbit_s = {unit = "Gbit/s", doc = "highest of these; NULL if none is enough in one of them"}
band = """what low and high contain: link, or link and iterations; the percentiles of fewer than 10
    iterations are left out"""
full_overlap_gbit_s = {unit = "Gbit/s", doc = """enough if the link were busy from the first
    gradient to the next forward pass, of fsdp during both passes, without latencies; NULL if no
    bandwidth is"""}
no_overlap_gbit_s = {unit = "Gbit/s", doc = """enough if computation waited for all communication,
    without latencies; NULL if none is"""}
measured_below_gbit_s = {unit = "Gbit/s", doc = """largest measured bandwidth that misses the target
    (measured_speedup); NULL if none does"""}
measured_enough_gbit_s = {unit = "Gbit/s", doc = """smallest measured bandwidth from which on the
    target is reached; NULL if none is"""}
reason = "why no bandwidth is enough; NULL otherwise"
evidence = "modelled"
inputs = "origin of times and gradient bytes"
[plot]
kind = "line"
x = "workers"
y = ["min_gbit_s"]
band = ["min_low_gbit_s", "min_high_gbit_s"]
panels = ["trace_id", "scheme"]
log = ["y"]
series = ["target"]
*/
WITH
wanted AS (
    SELECT w.workers, t.target AS target_speedup, format('×{:g}', t.target) AS target
    FROM (SELECT unnest(workers) AS workers FROM _dp_setting) w
    CROSS JOIN (
        SELECT unnest(list_distinct(string_split(
            nullif(getvariable('target_speedup'), ''), ',')::DOUBLE[])) AS target
    ) t
    UNION ALL
    SELECT w.workers, t.target * w.workers, format('{:g} %', 100 * t.target)
    FROM (SELECT unnest(workers) AS workers FROM _dp_setting) w
    CROSS JOIN (
        SELECT unnest(list_distinct(string_split(
            getvariable('target_efficiency'), ',')::DOUBLE[])) AS target
    ) t
    WHERE nullif(getvariable('target_speedup'), '') IS NULL
),
-- Computation that takes `scale` times as long: communication is as much shorter, in that unit.
asked AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY r.trace_id, c.scheme, w.workers, w.target_speedup, f.scale)
            AS ask,
        r.*, c.scheme, w.workers, w.target_speedup, w.target,
        w.workers * r.alone_s / w.target_speedup AS wanted_s,
        f.scale, s.latency_s / f.scale AS latency_s, l.host_byte_s / f.scale AS host_byte_s,
        coalesce(l.all_reduce_s, 2 * (w.workers - 1) * s.latency_s) / f.scale AS all_reduce_s,
        16e-9 * (w.workers - 1) / w.workers / (l.link_efficiency * f.scale) AS gbit_byte_s,
        s.uncertainty, s.slice_bytes, concat_ws(', ', r.evidence, l.evidence) AS inputs
    FROM _dp_run r
    JOIN _dp_link l USING (trace_id)
    CROSS JOIN _dp_setting s
    CROSS JOIN (SELECT unnest(schemes) AS scheme FROM _dp_setting) c
    CROSS JOIN wanted w
    CROSS JOIN LATERAL (SELECT unnest(list_distinct([1, r.shortest, r.longest])) AS scale) f
),
-- Without these, or with one worker, the bandwidth does not matter.
exchanged AS (SELECT * FROM asked WHERE workers > 1 AND gradient_bytes > 0),
ring AS (
    SELECT a.ask, min((a.wanted_s - b.start_s - b.all_reduces * a.all_reduce_s) / b.bytes)
        AS byte_s
    FROM exchanged a JOIN _dp_bound b USING (trace_id, scheme) GROUP BY a.ask
),
-- The gradient of a layer and those of all earlier layers follow its backward time. At most the
-- slice in flight, a slice in the last gap and the latencies of pushes and pulls are added.
served AS (
    SELECT a.ask, a.trace_id, a.scheme, a.latency_s, a.all_reduce_s, a.wanted_s, a.host_byte_s,
        min((spare_s - a.latency_s) / l.up_to_bytes) AS high,
        min(CASE a.scheme
            WHEN 'ps' THEN (spare_s - (l.number + 2) * a.latency_s) / l.up_to_bytes
            ELSE (spare_s - 3 * a.latency_s) / (l.up_to_bytes + a.slice_bytes) END) AS low
    FROM exchanged a
    JOIN (
        SELECT *, max(after_s) OVER (PARTITION BY trace_id) AS all_after_s FROM _dp_layer
    ) l USING (trace_id)
    CROSS JOIN LATERAL (
        SELECT a.wanted_s - a.rest_s - l.ready_s
            - if(a.scheme = 'ps', l.all_after_s, l.after_s) AS spare_s
    ) d
    WHERE a.scheme IN ('ps', 'p3') GROUP BY ALL
    UNION ALL
    -- All communication is hidden, or none. Three passes, each half of an all-reduce.
    SELECT a.ask, a.trace_id, a.scheme, a.latency_s, a.all_reduce_s, a.wanted_s, a.host_byte_s,
        (a.wanted_s - a.rest_s) / (1.5 * a.gradient_bytes),
        (a.wanted_s - a.alone_s - 1.5 * l.layers * a.all_reduce_s) / (1.5 * a.gradient_bytes)
    FROM exchanged a
    JOIN (SELECT trace_id, count(*) AS layers FROM _dp_layer GROUP BY trace_id) l USING (trace_id)
    WHERE a.scheme = 'fsdp'
),
-- 1e-18 s per byte: 8,000,000,000 Gbit/s. A little lower, since the end is rounded.
bracket_0 AS MATERIALIZED (
    SELECT ask, trace_id, scheme, latency_s, all_reduce_s, wanted_s,
        greatest(low * (1 - 1e-12), host_byte_s, 1e-18) AS low,
        greatest(high, low, host_byte_s, 1e-18) AS high
    FROM served
),
bracket_1 AS MATERIALIZED (FROM narrowed('bracket_0')),
bracket_2 AS MATERIALIZED (FROM narrowed('bracket_1')),
bracket_3 AS MATERIALIZED (FROM narrowed('bracket_2')),
bracket_4 AS MATERIALIZED (FROM narrowed('bracket_3')),
bracket_5 AS MATERIALIZED (FROM narrowed('bracket_4')),
bracket_6 AS MATERIALIZED (FROM narrowed('bracket_5')),
-- Within the last bracket, the time grows by no more than that of the gradient, unless it jumps:
-- with P3 by the time of a slice, where another layer is sent first. Before the jump it is in time.
smallest AS (
    FROM ring
    UNION ALL
    SELECT b.ask, b.low + CASE
            WHEN b.high_s - b.low_s <= 4 * a.gradient_bytes * (b.high - b.low)
                THEN coalesce((b.high - b.low) * (b.wanted_s - b.low_s)
                    / nullif(b.high_s - b.low_s, 0), 0)
            ELSE 0 END AS byte_s
    FROM bracket_6 b JOIN asked a USING (ask)
),
answer AS (
    SELECT a.*, f.byte_s,
        CASE
            WHEN e.ask IS NULL AND a.wanted_s >= a.alone_s * (1 - 1e-12) THEN NULL
            WHEN a.wanted_s < a.alone_s * (1 - 1e-12)
                THEN format('{} workers are at most {} times as fast', a.workers, a.workers)
            WHEN coalesce(f.byte_s, 0) > greatest(a.host_byte_s, 1e-18)
                OR f.byte_s = a.host_byte_s AND f.byte_s > 0 THEN NULL
            WHEN a.host_byte_s > 0 THEN 'limited by host_bytes_per_s, or by latencies'
            ELSE 'latencies, or the gradient of the first layer, are exposed at any bandwidth'
        END AS reason,
        CASE WHEN e.ask IS NULL AND reason IS NULL THEN 0
            WHEN reason IS NULL THEN a.gbit_byte_s / f.byte_s END AS min_gbit_s,
        a.wanted_s - a.alone_s AS no_overlap_s,
        a.wanted_s - a.rest_s - if(a.scheme = 'fsdp', 0, a.forward_s + l.first_s)
            AS full_overlap_s,
        a.gradient_bytes * if(a.scheme = 'fsdp', 1.5, 1) AS moved_bytes
    FROM asked a
    LEFT JOIN (
        SELECT trace_id, min(ready_s) AS first_s FROM _dp_layer GROUP BY trace_id
    ) l USING (trace_id)
    LEFT JOIN exchanged e USING (ask)
    LEFT JOIN smallest f USING (ask)
),
banded AS (
    SELECT trace_id, scheme, workers, target_speedup, min(min_gbit_s) AS least_gbit_s,
        CASE WHEN count(min_gbit_s) = count(*) THEN max(min_gbit_s) END AS most_gbit_s
    FROM answer GROUP BY ALL
),
below AS (
    SELECT a.ask, max(m.bandwidth_gbit) AS gbit
    FROM asked a JOIN measured_speedup m USING (trace_id, scheme, workers)
    WHERE m.speedup < a.target_speedup GROUP BY a.ask
),
enough AS (
    SELECT a.ask, min(m.bandwidth_gbit) AS gbit
    FROM asked a
    JOIN measured_speedup m USING (trace_id, scheme, workers)
    LEFT JOIN below b USING (ask)
    WHERE m.bandwidth_gbit > coalesce(b.gbit, 0) GROUP BY a.ask
)
SELECT trace_id, scheme, workers, target_speedup, target, min_gbit_s,
    CASE WHEN min_gbit_s IS NOT NULL THEN least_gbit_s / (1 + uncertainty) END AS min_low_gbit_s,
    CASE WHEN min_gbit_s IS NOT NULL AND uncertainty < 1 THEN most_gbit_s / (1 - uncertainty) END
        AS min_high_gbit_s, band,
    CASE WHEN full_overlap_s > 0 THEN gbit_byte_s * moved_bytes / full_overlap_s END
        AS full_overlap_gbit_s,
    CASE WHEN no_overlap_s > 0 THEN gbit_byte_s * moved_bytes / no_overlap_s END
        AS no_overlap_gbit_s,
    below.gbit AS measured_below_gbit_s, enough.gbit AS measured_enough_gbit_s,
    reason, 'modelled' AS evidence, inputs
FROM answer
JOIN banded USING (trace_id, scheme, workers, target_speedup)
LEFT JOIN below USING (ask)
LEFT JOIN enough USING (ask)
WHERE scale = 1
ORDER BY trace_id, list_position(['ddp', 'serial', 'ps', 'p3', 'fsdp'], scheme), workers,
    target_speedup
