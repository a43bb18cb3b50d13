/*
title    = "Hardware counters of each kernel"
question = "Which counter values apply to each kernel of a timeline?"
source   = "runs of one capture are matched by kernel name, launch configuration and ordinal"
grain    = "counter of a kernel"
needs    = ["kernel_metric"]
optional = ["kernel", "trace"]
[columns]
trace_id = "trace of the kernel"
kernel_id = "the kernel"
metric = "metric name"
unit = "unit of value"
value = "value in this unit"
tool = "nvprof or ncu"
counter_trace_id = """trace of the measurement: that of the kernel, or a metric run of the same
    capture"""
[advice]
missing = "needs hardware counters of the kernels; {counters}"
counters = "utilization of the kernels"
*/
WITH
-- Ordinal of a kernel among executions of the same name and configuration in its trace.
numbered AS (
    SELECT t.capture_id, t.kind, k.trace_id, k.kernel_id, k.name,
        k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z,
        row_number() OVER same AS ordinal, count(*) OVER same_all AS executions
    FROM kernel k JOIN trace t USING (trace_id)
    WINDOW same AS (
        PARTITION BY k.trace_id, k.name, k.grid_x, k.grid_y, k.grid_z,
            k.block_x, k.block_y, k.block_z
        ORDER BY k.start_ns NULLS LAST, k.kernel_id),
    same_all AS (
        PARTITION BY k.trace_id, k.name, k.grid_x, k.grid_y, k.grid_z,
            k.block_x, k.block_y, k.block_z)
),
timeline AS (SELECT * FROM numbered WHERE kind = 'timeline' AND capture_id IS NOT NULL),
-- If several runs counted the same metric of a kernel, one of them is used: counts must not add up.
lent AS (
    SELECT n.* EXCLUDE (trace_id, kernel_id, kind), v.metric, v.unit, v.value, v.tool,
        n.trace_id AS counter_trace_id
    FROM numbered n
    JOIN kernel_metric v ON v.trace_id = n.trace_id AND v.kernel_id = n.kernel_id
    WHERE n.kind = 'metrics' AND n.capture_id IS NOT NULL
      AND v.unit_instance IS NULL AND v.value IS NOT NULL
    QUALIFY n.trace_id = min(n.trace_id) OVER (
        PARTITION BY n.capture_id, n.name, n.grid_x, n.grid_y, n.grid_z, n.block_x, n.block_y,
            n.block_z, v.tool, v.metric)
),
own AS (
    SELECT DISTINCT trace_id, tool, metric FROM kernel_metric WHERE kernel_id IS NOT NULL
)
SELECT trace_id, kernel_id, metric, unit, value, tool, trace_id AS counter_trace_id
FROM kernel_metric
WHERE kernel_id IS NOT NULL AND unit_instance IS NULL AND value IS NOT NULL
UNION ALL
-- A metric run covers few iterations; its executions are assigned to those of the timeline in turn.
-- IS NOT DISTINCT FROM: grid and block may be unknown. Counters of the timeline itself win.
SELECT l.trace_id, l.kernel_id, m.metric, m.unit, m.value, m.tool, m.counter_trace_id
FROM timeline l
JOIN lent m
    ON  m.capture_id = l.capture_id AND m.name = l.name
    AND m.grid_x IS NOT DISTINCT FROM l.grid_x AND m.grid_y IS NOT DISTINCT FROM l.grid_y
    AND m.grid_z IS NOT DISTINCT FROM l.grid_z AND m.block_x IS NOT DISTINCT FROM l.block_x
    AND m.block_y IS NOT DISTINCT FROM l.block_y AND m.block_z IS NOT DISTINCT FROM l.block_z
    AND m.ordinal = (l.ordinal - 1) % m.executions + 1
ANTI JOIN own o ON o.trace_id = l.trace_id AND o.tool = m.tool AND o.metric = m.metric
