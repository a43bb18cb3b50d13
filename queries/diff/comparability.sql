/*
title    = "Comparability"
question = "Which properties of two runs differ, and can their times be compared?"
source   = """iteration times are comparable if both runs do the same work per iteration and are
    measured in the same way (suite_compare applies the same rules to a suite)"""
grain    = "property of a run"
needs    = ["diff_side", "trace"]
optional = [
    "device", "device_timeline", "iteration", "iteration_rate", "layer_clock",
    "counter_donor_trace", "analysis_window",
]
[columns]
field = "property"
a = "value in A, several joined by a comma; NULL when unknown"
b = "value in B"
differs = "true if the values differ, or if only one is known"
matters = """effect of a difference: not comparable (different work per iteration or another
    measurement), uncertain (one side is unknown, or the windows differ in quality), may explain (a
    change whose effect the comparison shows); NULL without a difference"""
*/
WITH
recorded AS (
    SELECT s.side, t.trace_id, t.tool, t.tool_version, t.kind, t.capture,
        list_has_any(
            t.holds, ['kernel', 'kernel_aggregate', 'graph_launch', 'memcpy', 'memset']
        ) AS has_gpu_work
    FROM diff_side s JOIN trace t USING (trace_id)
    -- A counter donor belongs to a timeline, which describes the run.
    WHERE t.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
      -- A log of nccl-tests in a job describes its links.
      AND NOT coalesce(list_contains(t.holds, 'link_sample'), false)
),
used AS (
    SELECT DISTINCT s.side, d.name
    FROM diff_side s
    JOIN device d USING (trace_id)
    SEMI JOIN device_timeline t ON t.trace_id = d.trace_id AND t.device_id = d.device_id
),
per_iteration AS (
    SELECT s.side, median(i.kernels) AS kernels
    FROM diff_side s
    -- Without a window, all iterations of a process count.
    JOIN (
        SELECT trace_id, kernels,
            in_window OR NOT bool_or(in_window) OVER (PARTITION BY trace_id, process_id) AS counts
        FROM iteration
    ) i USING (trace_id)
    WHERE i.counts
    GROUP BY s.side
),
fact AS (
    SELECT side, unnest([
        {'position': 1, 'field': 'kind of trace', 'rule': 'not comparable', 'value': kind},
        {'position': 2, 'field': 'synthetic', 'rule': 'not comparable',
         'value': coalesce(capture ->> '$.synthetic', 'false')},
        {'position': 3, 'field': 'profiler', 'rule': 'not comparable', 'value': tool},
        {'position': 4, 'field': 'model', 'rule': 'not comparable', 'value': capture ->> '$.model'},
        {'position': 5, 'field': 'variant', 'rule': 'not comparable',
         'value': capture ->> '$.variant'},
        {'position': 6, 'field': 'scale', 'rule': 'not comparable', 'value': capture ->> '$.scale'},
        {'position': 7, 'field': 'data set', 'rule': 'not comparable',
         'value': capture ->> '$.dataset'},
        {'position': 8, 'field': 'batch definition', 'rule': 'not comparable',
         'value': capture ->> '$.batch_definition'},
        {'position': 10, 'field': 'sequence policy', 'rule': 'not comparable',
         'value': capture ->> '$.sequence_policy'},
        {'position': 16, 'field': 'GPU work', 'rule': 'uncertain',
         'value': CASE WHEN has_gpu_work THEN 'recorded' ELSE 'not recorded' END},
        {'position': 20, 'field': 'framework', 'rule': 'may explain',
         'value': capture ->> '$.framework'},
        {'position': 21, 'field': 'framework version', 'rule': 'may explain',
         'value': capture ->> '$.framework_version'},
        {'position': 22, 'field': 'precision', 'rule': 'may explain',
         'value': nullif(concat_ws(' ', capture ->> '$.precision', capture ->> '$.autocast'), '')},
        {'position': 23, 'field': 'optimizer', 'rule': 'may explain',
         'value': capture ->> '$.optimizer'},
        {'position': 24, 'field': 'execution', 'rule': 'may explain',
         'value': coalesce(
             capture ->> '$.throughput.execution', capture ->> '$.profiled.execution')},
        {'position': 25, 'field': 'world size', 'rule': 'may explain',
         'value': capture ->> '$.world_size'},
        {'position': 26, 'field': 'host', 'rule': 'may explain', 'value': capture ->> '$.host'},
        {'position': 27, 'field': 'profiler version', 'rule': 'may explain',
         'value': coalesce(tool_version, capture ->> '$.profiler_version')},
        -- One pass and all activations kept are the usual case, also of captures that omit it.
        {'position': 31, 'field': 'gradient accumulation', 'rule': 'may explain',
         'value': nullif(capture ->> '$.gradient_accumulation', '1')},
        {'position': 32, 'field': 'activation checkpointing', 'rule': 'may explain',
         'value': nullif(capture ->> '$.activation_checkpointing', 'false')}
    ], recursive := true)
    FROM recorded
    UNION ALL
    SELECT side, 28, 'device', 'may explain', name FROM used
    UNION ALL
    -- Ranges of a program mark the same iterations, whichever profiler records them.
    SELECT s.side, 11, 'iterations told by', 'not comparable',
        regexp_replace(r.method, '^(nvtx|torch) range$', 'range')
    FROM diff_side s JOIN iteration_rate r USING (trace_id)
    UNION ALL
    SELECT s.side, 12, 'clock of iterations', 'not comparable', r.clock
    FROM diff_side s JOIN iteration_rate r USING (trace_id)
    UNION ALL
    SELECT s.side, 14, 'iterations measured', 'uncertain', r.measured_over
    FROM diff_side s JOIN iteration_rate r USING (trace_id)
    UNION ALL
    SELECT s.side, 15, 'layer clock', 'uncertain', c.clock
    FROM diff_side s JOIN layer_clock c USING (trace_id)
    UNION ALL
    SELECT side, 29, 'processes that use a GPU', 'may explain',
        count(DISTINCT (trace_id, process_id))::VARCHAR
    FROM diff_side JOIN analysis_window USING (trace_id) GROUP BY side
    UNION ALL
    SELECT side, 30, 'GPUs used', 'may explain',
        count(DISTINCT (trace_id, device_id))::VARCHAR
    FROM diff_side JOIN analysis_window USING (trace_id) GROUP BY side
    UNION ALL
    -- An anchor kernel may repeat within a training step. Kernel counts that differ by over 10 %
    -- show that the iterations of the two sides are different units.
    SELECT p.side, 13, 'kernels per iteration',
        CASE WHEN p.by_anchor AND 1.1 * p.fewest < p.most THEN 'not comparable'
             ELSE 'may explain' END,
        p.kernels::VARCHAR
    FROM (
        SELECT side, kernels, min(kernels) OVER () AS fewest, max(kernels) OVER () AS most,
            EXISTS (
                SELECT 1 FROM diff_side JOIN iteration USING (trace_id)
                WHERE method = 'anchor kernel'
            ) AS by_anchor
        FROM per_iteration WHERE kernels IS NOT NULL
    ) p
),
paired AS (
    SELECT position, field, any_value(rule) AS rule,
        string_agg(DISTINCT value, ', ' ORDER BY value) FILTER (side = 'A') AS a,
        string_agg(DISTINCT value, ', ' ORDER BY value) FILTER (side = 'B') AS b
    FROM fact GROUP BY position, field
)
SELECT field, a, b, a IS DISTINCT FROM b AS differs,
    CASE WHEN NOT differs THEN NULL
         WHEN rule = 'not comparable' AND (a IS NULL OR b IS NULL) THEN 'uncertain'
         ELSE rule END AS matters
FROM paired
WHERE a IS NOT NULL OR b IS NOT NULL
ORDER BY matters = 'not comparable' DESC NULLS LAST, matters = 'uncertain' DESC NULLS LAST,
    differs DESC, position
