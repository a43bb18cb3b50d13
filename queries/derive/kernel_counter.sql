/*
title    = "Hardware counters of each kernel"
question = "Which counter values stand for each kernel of a timeline?"
source   = "the runs of one capture are matched by kernel name, launch configuration and ordinal"
grain    = "one counter of one kernel"
needs    = ["kernel_metric"]
optional = ["kernel", "trace"]
[columns.trace_id]
doc = "trace of the kernel"
[columns.kernel_id]
doc = "the kernel"
[columns.metric]
doc = "metric name"
[columns.unit]
doc = "unit"
[columns.value]
doc = "value in that unit"
[columns.tool]
doc = "nvprof or ncu"
[columns.counter_trace_id]
doc = "trace that the value was measured in: the kernel's own, or a metric run of the same capture"
*/
WITH
-- Position of a kernel among the executions of the same name and configuration in its trace.
numbered AS (
    SELECT t.capture_id, t.kind, k.trace_id, k.kernel_id, k.name,
        k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z,
        row_number() OVER same AS ordinal, count(*) OVER same_all AS executions
    FROM kernel k JOIN trace t USING (trace_id)
    WINDOW same AS (
        PARTITION BY k.trace_id, k.name, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z
        ORDER BY k.start_ns NULLS LAST, k.kernel_id),
    same_all AS (
        PARTITION BY k.trace_id, k.name, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z)
),
timeline AS (SELECT * FROM numbered WHERE kind = 'timeline' AND capture_id IS NOT NULL),
-- A metric run covers few iterations: its executions stand for those of the timeline in turn.
matched AS (
    SELECT l.trace_id, l.kernel_id, m.trace_id AS counter_trace_id, m.kernel_id AS counter_kernel_id
    FROM timeline l
    JOIN numbered m
        ON  m.capture_id = l.capture_id AND m.kind = 'metrics' AND m.name = l.name
        AND m.grid_x IS NOT DISTINCT FROM l.grid_x AND m.grid_y IS NOT DISTINCT FROM l.grid_y
        AND m.grid_z IS NOT DISTINCT FROM l.grid_z AND m.block_x IS NOT DISTINCT FROM l.block_x
        AND m.block_y IS NOT DISTINCT FROM l.block_y AND m.block_z IS NOT DISTINCT FROM l.block_z
        AND m.ordinal = (l.ordinal - 1) % m.executions + 1
)
SELECT trace_id, kernel_id, metric, unit, value, tool, counter_trace_id
FROM (
    SELECT trace_id, kernel_id, metric, unit, value, tool, trace_id AS counter_trace_id
    FROM kernel_metric
    WHERE kernel_id IS NOT NULL AND unit_instance IS NULL AND value IS NOT NULL
    UNION ALL
    SELECT m.trace_id, m.kernel_id, v.metric, v.unit, v.value, v.tool, m.counter_trace_id
    FROM matched m
    JOIN kernel_metric v
        ON v.trace_id = m.counter_trace_id AND v.kernel_id = m.counter_kernel_id
    WHERE v.unit_instance IS NULL AND v.value IS NOT NULL
)
-- Several runs may have measured it: a counter counts once, the kernel's own value first.
QUALIFY row_number() OVER (
    PARTITION BY trace_id, kernel_id, tool, metric
    ORDER BY counter_trace_id <> trace_id, counter_trace_id, value) = 1
