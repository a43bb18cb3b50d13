/*
title    = "Communication by layer"
question = "Which layers communicate long, compared with their compute time?"
source   = """time of an all-reduce of the gradient of each layer alone ÷ forward and backward time
    of the layer"""
grain    = "layer, number of workers and bandwidth"
needs    = ["layer_cost"]
optional = ["_dp_setting", "_dp_link"]
[params.bandwidth_gbit]
doc = "bandwidths of the link of each worker in Gbit/s, separated by commas"
default = "10"
items = "number"
minimum = 0.000001
[columns.trace_id]
doc = "the trace, or the name of the layer list"
[columns.workers]
doc = "number of workers"
[columns.bandwidth_gbit]
unit = "Gbit/s"
doc = "bandwidth of the link of each worker"
[columns.layer]
doc = "layer; the highest ratio comes first"
[columns.position]
doc = "order in the forward pass, from 0"
[columns.communication_s]
unit = "s"
doc = "time of a ring all-reduce of its gradient; 0 for one worker or without a gradient"
[columns.compute_s]
unit = "s"
doc = "forward and backward time"
[columns.ratio]
doc = "communication ÷ compute; NULL without compute time"
[columns.gradient_bytes]
unit = "byte"
doc = "bytes of its gradient"
[columns.gradient_share_pct]
unit = "%"
doc = "part of the bytes of all gradients; NULL if there are none"
[columns.evidence]
doc = "modelled"
[columns.inputs]
doc = "origin of times and gradient bytes"
[plot]
kind = "barh"
x = "layer"
y = ["ratio"]
series = ["workers", "bandwidth_gbit"]
limit = 30
*/
WITH
asked AS (
    SELECT c.*, w.workers, b.bandwidth_gbit, concat_ws(', ', c.evidence, l.evidence) AS inputs,
        if(w.workers > 1 AND c.gradient_bytes > 0,
            coalesce(l.all_reduce_s, 2 * (w.workers - 1) * s.latency_s)
                + c.gradient_bytes * greatest(l.host_byte_s, 16e-9 * (w.workers - 1) / w.workers
                    / (l.link_efficiency * b.bandwidth_gbit)), 0)::DOUBLE AS communication_s
    FROM layer_cost c
    JOIN _dp_link l USING (trace_id)
    CROSS JOIN _dp_setting s
    CROSS JOIN (SELECT unnest(workers) AS workers FROM _dp_setting) w
    CROSS JOIN (
        SELECT unnest(list_distinct(string_split(
            coalesce(getvariable('bandwidth_gbit'), '10'), ',')::DOUBLE[])) AS bandwidth_gbit
    ) b
)
SELECT trace_id, workers, bandwidth_gbit, layer, position, communication_s,
    forward_s + backward_s AS compute_s,
    communication_s / nullif(forward_s + backward_s, 0) AS ratio,
    gradient_bytes,
    100 * gradient_bytes / nullif(sum(gradient_bytes) OVER (
        PARTITION BY trace_id, workers, bandwidth_gbit), 0) AS gradient_share_pct,
    'modelled' AS evidence, inputs
FROM asked
ORDER BY trace_id, workers, bandwidth_gbit, ratio DESC NULLS LAST, position
