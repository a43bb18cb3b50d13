/*
title    = "Communication by layer"
question = "Which layers communicate long, compared with their compute time?"
source   = """modelled: time of an all-reduce of the gradient of each layer alone; measured:
    all-reduces of the ranks of a job, each divided among its layers by bytes; ÷ forward and
    backward time of the layer"""
grain    = "layer, number of workers and bandwidth"
needs    = ["layer_cost"]
optional = ["_dp_setting", "_dp_link", "layer_communication"]
returns = [
    "trace_id", "workers", "bandwidth_gbit", "layer", "position", "communication_s", "compute_s",
    "ratio", "gradient_bytes", "gradient_share_pct", "modelled_s", "deviation_pct", "basis",
    "reason", "evidence", "inputs",
]
[params.by]
doc = "modelled: for any number of workers and bandwidth; measured: as the ranks of a job ran"
choices = ["modelled", "measured"]
default = "modelled"
[params.bandwidth_gbit]
doc = "modelled: bandwidths of the link of each worker in Gbit/s, separated by commas"
default = "10"
items = "number"
minimum = 0.000001
[columns]
workers = "number of workers; measured: NULL when unknown"
bandwidth_gbit = {unit = "Gbit/s", doc = """bandwidth of the link of each worker; measured: of
    job.json or link_gbit; NULL when unknown"""}
layer = "layer; the highest ratio comes first"
communication_s = {unit = "s", doc = """time of a ring all-reduce of its gradient; 0 for one worker
    or without a gradient; measured: its part of the all-reduces, NULL with a reason"""}
compute_s = {unit = "s", doc = "forward and backward time"}
ratio = "communication ÷ compute; NULL without compute time"
gradient_bytes = "bytes of its gradient"
gradient_share_pct = "part of the bytes of all gradients; NULL if there are none"
modelled_s = {unit = "s", doc = """measured: its part of the same all-reduces as a ring; NULL if
    workers or bandwidth are unknown"""}
deviation_pct = "measured: communication_s ÷ modelled_s − 1"
basis = """measured: transfer (last start to first end of the ranks) or duration (on this rank, with
    its wait for the others)"""
evidence = "modelled or measured"
inputs = "origin of times and gradient bytes"
[plot]
kind = "grouped_barh"
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
            getvariable('bandwidth_gbit'), ',')::DOUBLE[])) AS bandwidth_gbit
    ) b
),
answer AS (
    SELECT trace_id, layer, position, forward_s, backward_s, gradient_bytes, workers,
        bandwidth_gbit, communication_s, NULL::DOUBLE AS modelled_s, NULL::VARCHAR AS basis,
        NULL::VARCHAR AS reason, 'modelled' AS evidence, inputs
    FROM asked WHERE getvariable('by') = 'modelled'
    UNION ALL
    SELECT c.trace_id, c.layer, c.position, c.forward_s, c.backward_s, c.gradient_bytes, m.workers,
        m.bandwidth_gbit, m.communication_s, m.modelled_s, m.basis, m.reason, 'measured',
        c.evidence
    FROM layer_cost c JOIN layer_communication m USING (trace_id, layer)
    WHERE getvariable('by') = 'measured'
)
SELECT trace_id, workers, bandwidth_gbit, layer, position, communication_s,
    forward_s + backward_s AS compute_s,
    communication_s / nullif(forward_s + backward_s, 0) AS ratio,
    gradient_bytes,
    100 * gradient_bytes / nullif(sum(gradient_bytes) OVER (
        PARTITION BY trace_id, workers, bandwidth_gbit), 0) AS gradient_share_pct,
    modelled_s, 100 * (communication_s / nullif(modelled_s, 0) - 1) AS deviation_pct, basis, reason,
    evidence, inputs
FROM answer
ORDER BY trace_id, workers, bandwidth_gbit, ratio DESC NULLS LAST, position
