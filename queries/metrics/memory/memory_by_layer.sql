/*
title    = "Memory by layer"
question = "Which layers fill the memory, and with what?"
source   = """a feature map counts once per storage, for the layer that made it; weights, gradients
    and optimizer state as live at the end of the recording"""
grain    = "layer, per memory space"
needs    = ["allocation"]
optional = ["peak_memory"]
reduce   = "concat"
returns = [
    "trace_id", "process_id", "device_id", "layer", "weight_bytes", "weight_gradient_bytes",
    "optimizer_state_bytes", "buffer_bytes", "feature_map_bytes", "recomputed_bytes",
    "activation_gradient_bytes", "workspace_bytes", "total_bytes", "share_pct", "measured_over",
    "evidence",
]
[columns]
layer = "layer; NULL outside of layers"
weight_bytes = "weights"
weight_gradient_bytes = "weight gradients"
optimizer_state_bytes = "optimizer state"
buffer_bytes = "buffers, for example running statistics"
feature_map_bytes = "feature maps made in forward"
recomputed_bytes = "feature maps made again in backward (checkpointing)"
activation_gradient_bytes = "gradients of feature maps, each once"
workspace_bytes = "scratch memory and temporaries, each once"
total_bytes = "weights, weight gradients, optimizer state, buffers and feature maps"
share_pct = "part of the total of all rows"
measured_over = "iteration N; or peak, the live bytes then, where no iterations are known"
evidence = "collector, stack, none; several are separated by commas"
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
            WHEN getvariable('iteration') < 0 THEN max(iteration)
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
