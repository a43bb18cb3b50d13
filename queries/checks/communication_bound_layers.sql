/*
title    = "Layers that communicate longer than they compute"
question = """Would the all-reduce of the gradient of a layer take longer than its forward and
    backward pass?"""
source   = """time of a ring all-reduce between two workers at bandwidth_gbit, as in comm_overhead:
    a lower bound, since more workers take up to twice as long"""
grain    = "trace"
needs    = ["layer_cost"]
optional = ["_dp_setting", "_dp_link"]
[check]
rule = "NET04"
scope = "trace"
thresholds = "definition"
advice = """a faster network, larger batches, gradient accumulation or smaller gradients (reduced
    precision) help; tbd-trace query min_bandwidth shows the smallest sufficient bandwidth"""
collect = """the layers of a training run on one GPU with layers.json (tbd-trace collect writes
    both)"""
[params.max_layer_ratio]
doc = "maximum communication ÷ compute of a layer"
default = 1.0
[params.link_gbit]
doc = "bandwidth of the link of each worker in Gbit/s"
default = 10.0
minimum = 0.000001
*/
WITH
evaluated AS (
    SELECT c.trace_id, c.layer, c.gradient_bytes,
        coalesce(l.all_reduce_s, 2 * s.latency_s) + c.gradient_bytes * greatest(l.host_byte_s,
            8e-9 / (l.link_efficiency * getvariable('link_gbit')))
            AS communication_s,
        communication_s / nullif(c.forward_s + c.backward_s, 0) AS ratio,
        getvariable('max_layer_ratio')::DOUBLE AS max_ratio,
        sum(c.gradient_bytes) OVER (PARTITION BY c.trace_id) AS all_bytes
    FROM layer_cost c JOIN _dp_link l USING (trace_id) CROSS JOIN _dp_setting s
    WHERE c.gradient_bytes > 0
),
summed AS (
    SELECT trace_id, any_value(max_ratio) AS max_ratio, max(ratio) AS value,
        count(*) FILTER (ratio > max_ratio) AS layers, count(*) AS evaluated_layers,
        100 * sum(gradient_bytes) FILTER (ratio > max_ratio) / any_value(all_bytes) AS share_pct,
        array_to_string(list(format('{} ({:.2f})', layer, ratio) ORDER BY ratio DESC, layer)
            FILTER (ratio > max_ratio)[:3], ', ') AS named
    FROM evaluated GROUP BY trace_id
)
SELECT trace_id,
    CASE WHEN value IS NULL THEN 'not evaluable' WHEN layers > 0 THEN 'finding' ELSE 'pass' END
        AS verdict,
    CASE WHEN layers > 0 THEN 'note' END AS severity, value, max_ratio AS threshold,
    NULL::VARCHAR AS unit, CASE WHEN value IS NOT NULL THEN 'modelled' END AS evidence,
    CASE
        WHEN value IS NULL THEN 'no layer with a gradient has a time'
        WHEN layers > 0 THEN format(
            '{} of {} layers, with {:.1f} % of the gradient bytes, communicate longer than they '
                || 'compute, at {:g} Gbit/s between two workers: {}',
            layers, evaluated_layers, share_pct, getvariable('link_gbit'), named)
        ELSE format('no layer communicates longer than {:g} times its computation, at {:g} Gbit/s',
            max_ratio, getvariable('link_gbit'))
    END AS reason,
    NULL::VARCHAR AS advice
FROM summed
ORDER BY trace_id
