/*
title    = "Comparability"
question = "In what do two runs differ besides their speed, and may their times be compared at all?"
source   = "iterations compare only where both runs do the same work per iteration and are measured alike (suite_compare asks the same of a suite)"
grain    = "one thing that should agree, or that was changed on purpose"
needs    = ["diff_side", "trace"]
optional = ["device", "device_timeline", "iteration", "iteration_rate", "layer_clock", "counter_donor_trace", "analysis_window"]
[columns.field]
doc = "what is compared"
[columns.a]
doc = "its value in A; several joined by ,; NULL when not known"
[columns.b]
doc = "its value in B"
[columns.differs]
doc = "the values differ, or only one is known"
[columns.matters]
doc = "of a difference: not comparable (other work per iteration, or measured in another way), uncertain (one side is not known, or the windows are of different quality), may explain (a change whose effect the comparison shows); NULL where nothing differs"
*/
WITH
told AS (
    SELECT s.side, t.trace_id, t.tool, t.tool_version, t.kind, t.capture AS said, t.batch_size,
        list_has_any(t.holds, ['kernel', 'kernel_aggregate', 'graph_launch', 'memcpy', 'memset']) AS has_gpu_work
    FROM diff_side s JOIN trace t USING (trace_id)
    WHERE t.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
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
    JOIN (SELECT trace_id, kernels, in_window OR NOT bool_or(in_window) OVER (PARTITION BY trace_id, process_id) AS counts
          FROM iteration) i USING (trace_id)
    WHERE i.counts
    GROUP BY s.side
),
fact AS (
    SELECT side, unnest([
        {'position': 1, 'field': 'kind of trace', 'rule': 'not comparable', 'value': kind},
        {'position': 2, 'field': 'synthetic', 'rule': 'not comparable', 'value': coalesce(said ->> '$.synthetic', 'false')},
        {'position': 3, 'field': 'profiler', 'rule': 'not comparable', 'value': tool},
        {'position': 4, 'field': 'model', 'rule': 'not comparable', 'value': said ->> '$.model'},
        {'position': 5, 'field': 'variant', 'rule': 'not comparable', 'value': said ->> '$.variant'},
        {'position': 6, 'field': 'scale', 'rule': 'not comparable', 'value': said ->> '$.scale'},
        {'position': 7, 'field': 'data set', 'rule': 'not comparable', 'value': said ->> '$.dataset'},
        {'position': 8, 'field': 'batch definition', 'rule': 'not comparable', 'value': said ->> '$.batch_definition'},
        {'position': 9, 'field': 'batch size', 'rule': 'not comparable', 'value': batch_size::VARCHAR},
        {'position': 10, 'field': 'sequence policy', 'rule': 'not comparable', 'value': said ->> '$.sequence_policy'},
        {'position': 16, 'field': 'GPU work', 'rule': 'uncertain', 'value': CASE WHEN has_gpu_work THEN 'recorded' ELSE 'not recorded' END},
        {'position': 20, 'field': 'framework', 'rule': 'may explain', 'value': said ->> '$.framework'},
        {'position': 21, 'field': 'framework version', 'rule': 'may explain', 'value': said ->> '$.framework_version'},
        {'position': 22, 'field': 'precision', 'rule': 'may explain', 'value': nullif(concat_ws(' ', said ->> '$.precision', said ->> '$.autocast'), '')},
        {'position': 23, 'field': 'optimizer', 'rule': 'may explain', 'value': said ->> '$.optimizer'},
        {'position': 24, 'field': 'execution', 'rule': 'may explain', 'value': coalesce(said ->> '$.throughput.execution', said ->> '$.profiled.execution')},
        {'position': 25, 'field': 'world size', 'rule': 'may explain', 'value': said ->> '$.world_size'},
        {'position': 26, 'field': 'host', 'rule': 'may explain', 'value': said ->> '$.host'},
        {'position': 27, 'field': 'profiler version', 'rule': 'may explain', 'value': coalesce(tool_version, said ->> '$.profiler_version')}
    ], recursive := true)
    FROM told
    UNION ALL
    SELECT side, 28, 'device', 'may explain', name FROM used
    UNION ALL
    SELECT s.side, 11, 'iterations told by', 'not comparable', r.method
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
    SELECT side, 29, 'processes that use a GPU', 'may explain', count(DISTINCT (trace_id, process_id))::VARCHAR
    FROM diff_side JOIN analysis_window USING (trace_id) GROUP BY side
    UNION ALL
    SELECT side, 30, 'GPUs used', 'may explain', count(DISTINCT (trace_id, device_id))::VARCHAR
    FROM diff_side JOIN analysis_window USING (trace_id) GROUP BY side
    UNION ALL
    -- Iterations told by an anchor kernel are of the same kind only if they have as many kernels.
    SELECT p.side, 13, 'kernels per iteration',
        CASE WHEN p.by_anchor AND 1.1 * p.fewest < p.most THEN 'not comparable' ELSE 'may explain' END,
        p.kernels::VARCHAR
    FROM (
        SELECT side, kernels, min(kernels) OVER () AS fewest, max(kernels) OVER () AS most,
            EXISTS (SELECT 1 FROM diff_side JOIN iteration USING (trace_id) WHERE method = 'anchor kernel') AS by_anchor
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
ORDER BY matters = 'not comparable' DESC NULLS LAST, matters = 'uncertain' DESC NULLS LAST, differs DESC, position
