/*
title    = "Memory by layer"
question = "Which layers fill the memory, and with what?"
source   = """a feature map counts once per storage, for the layer that made it; weights, gradients
    and optimizer state as live at the end of the recording"""
grain    = "layer, per memory space"
needs    = ["allocation"]
optional = ["peak_memory"]
reduce   = "concat"
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for host memory"
[columns.layer]
doc = "layer; NULL outside of layers"
[columns.weight_bytes]
unit = "byte"
doc = "weights"
[columns.weight_gradient_bytes]
unit = "byte"
doc = "weight gradients"
[columns.optimizer_state_bytes]
unit = "byte"
doc = "optimizer state"
[columns.buffer_bytes]
unit = "byte"
doc = "buffers, for example running statistics"
[columns.feature_map_bytes]
unit = "byte"
doc = "feature maps made in forward"
[columns.recomputed_bytes]
unit = "byte"
doc = "feature maps made again in backward (checkpointing)"
[columns.activation_gradient_bytes]
unit = "byte"
doc = "gradients of feature maps, each once"
[columns.workspace_bytes]
unit = "byte"
doc = "scratch memory and temporaries, each once"
[columns.total_bytes]
unit = "byte"
doc = "weights, weight gradients, optimizer state, buffers and feature maps"
[columns.share_pct]
unit = "%"
doc = "part of the total of all rows"
[columns.measured_over]
doc = "iteration N; or peak, the live bytes then, where no iterations are known"
[columns.evidence]
doc = "collector, stack, none; several are separated by commas"
[params.iteration]
doc     = "iteration of feature maps, from 0; -1 is the last one"
default = -1
[plot]
kind   = "stacked_barh"
x      = ["layer"]
y      = ["weight_bytes", "weight_gradient_bytes", "optimizer_state_bytes", "feature_map_bytes"]
limit  = 30
*/
WITH
chosen AS (
    SELECT trace_id, space,
        CASE
            WHEN max(iteration) IS NULL THEN NULL
            WHEN coalesce(getvariable('iteration'), -1) < 0 THEN max(iteration)
            ELSE getvariable('iteration')
        END::INTEGER AS chosen_iteration
    FROM allocation GROUP BY trace_id, space
),
counted AS (
    SELECT a.*, c.chosen_iteration,
        CASE
            WHEN a.class IN ('weight', 'optimizer_state', 'buffer') THEN a.died_sequence IS NULL
            WHEN c.chosen_iteration IS NULL
                THEN (a.born_sequence IS NULL OR a.born_sequence <= p.sequence)
                    AND (a.died_sequence IS NULL OR a.died_sequence > coalesce(p.sequence, -1))
            WHEN a.class = 'weight_gradient' THEN a.iteration <= c.chosen_iteration
                AND (a.died_sequence IS NULL OR a.iteration = c.chosen_iteration)
            ELSE a.iteration = c.chosen_iteration
        END AS is_counted
    FROM allocation AS a
    JOIN chosen AS c USING (space)
    LEFT JOIN peak_memory AS p USING (space)
),
summed AS (
    SELECT trace_id, process_id, device_id, layer,
        coalesce(sum(requested_bytes) FILTER (class = 'weight'), 0)::BIGINT AS weight_bytes,
        coalesce(sum(requested_bytes) FILTER (class = 'weight_gradient'), 0)::BIGINT
            AS weight_gradient_bytes,
        coalesce(sum(requested_bytes) FILTER (class = 'optimizer_state'), 0)::BIGINT
            AS optimizer_state_bytes,
        coalesce(sum(requested_bytes) FILTER (class = 'buffer'), 0)::BIGINT AS buffer_bytes,
        coalesce(sum(requested_bytes) FILTER (class = 'feature_map' AND NOT recomputed), 0)::BIGINT
            AS feature_map_bytes,
        coalesce(sum(requested_bytes) FILTER (class = 'feature_map' AND recomputed), 0)::BIGINT
            AS recomputed_bytes,
        coalesce(sum(requested_bytes) FILTER (class = 'activation_gradient'), 0)::BIGINT
            AS activation_gradient_bytes,
        coalesce(sum(requested_bytes) FILTER (class IN ('workspace', 'temporary')), 0)::BIGINT
            AS workspace_bytes,
        min(born_sequence) FILTER (class = 'feature_map') AS first_sequence,
        coalesce('iteration ' || any_value(chosen_iteration), 'peak') AS measured_over,
        string_agg(DISTINCT evidence, ',' ORDER BY evidence) AS evidence
    FROM counted
    WHERE is_counted
    GROUP BY trace_id, process_id, device_id, layer
),
totalled AS (
    SELECT *,
        weight_bytes + weight_gradient_bytes + optimizer_state_bytes + buffer_bytes
        + feature_map_bytes AS total_bytes
    FROM summed
)
SELECT trace_id, process_id, device_id, layer, weight_bytes, weight_gradient_bytes,
    optimizer_state_bytes, buffer_bytes, feature_map_bytes, recomputed_bytes,
    activation_gradient_bytes, workspace_bytes, total_bytes,
    100 * total_bytes / nullif(sum(total_bytes) OVER (
        PARTITION BY trace_id, process_id, device_id
    ), 0) AS share_pct,
    measured_over, evidence
FROM totalled
WHERE layer IS NOT NULL
    OR total_bytes + recomputed_bytes + activation_gradient_bytes + workspace_bytes > 0
ORDER BY trace_id, process_id, device_id, total_bytes DESC, first_sequence, layer
