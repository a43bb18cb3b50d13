/*
title    = "Kernels of two runs"
question = "Which kernels are new, gone, faster, slower, or run more or less often in B than in A?"
source   = """matched by demangled name, grid and block; a change of time is split at the midpoint:
    calls × mean duration + duration × mean calls (Marshall-Edgeworth), which sum exactly to the
    change"""
grain    = "kernel name and launch configuration"
needs    = ["diff_side", ["kernel", "kernel_aggregate"]]
optional = ["window_op", "analysis_window", "trace", "counter_donor_trace"]
[params.min_change_pct]
doc = "minimum change of the mean duration of a kernel to report, in percent of A"
default = 1.0
[columns]
kernel_name = "demangled name"
grid = "grid in blocks, x y z; NULL when unknown"
block = "block in threads, x y z; NULL when unknown"
status = """new; gone; slower or faster: the mean duration changed by more than 3 standard errors
    (Welch) and by min_change_pct; more calls or fewer calls: by at least 1 %; unclear: the duration
    changed, but fewer than 3 calls do not show the noise; several joined by a comma; NULL without a
    change beyond noise"""
a_calls = "executions in A, per the unit in column per"
b_calls = "executions in B, per the unit in column per"
a_mean_ns = "mean duration in A; NULL for a new kernel"
b_mean_ns = "mean duration in B; NULL for a kernel that is gone"
a_ns = "sum of durations in A, per the unit in column per"
b_ns = "sum of durations in B, per the unit in column per"
change_ns = "B − A; NULL if per is not alike"
calls_effect_ns = """part of the change due to more or fewer calls; the whole change for a new or
    gone kernel"""
duration_effect_ns = "part of the change due to longer or shorter calls: the exact remainder"
per = """unit of the values: iteration of a process (processes with iterations only); whole trace if
    neither side has iterations; not alike if one side has"""
[plot]
kind = "grouped_barh"
x = ["kernel_name", "grid", "block"]
y = ["calls_effect_ns", "duration_effect_ns"]
limit = 20
title = "Change of kernel time"
*/
WITH
process_window AS (
    SELECT s.side, w.trace_id, w.process_id, max(w.iterations) AS iterations
    FROM diff_side s JOIN analysis_window w USING (trace_id)
    GROUP BY ALL
),
-- Per-iteration values exist only for processes with iterations; if a side has any, the others are
-- left out.
counted AS (
    SELECT * FROM process_window
    QUALIFY iterations IS NOT NULL OR count(iterations) OVER (PARTITION BY side) = 0
),
executed AS (
    SELECT s.side, k.name, concat_ws(' ', k.grid_x, k.grid_y, k.grid_z) AS grid,
        concat_ws(' ', k.block_x, k.block_y, k.block_z) AS block,
        count(*) AS calls, sum(k.duration_ns) AS ns,
        -- Integer sums are exact, so the result does not depend on the order of rows.
        (count(k.duration_ns) * sum(k.duration_ns::HUGEINT * k.duration_ns)
                - sum(k.duration_ns)::HUGEINT * sum(k.duration_ns))
            / nullif(count(k.duration_ns) * (count(k.duration_ns) - 1.0), 0) AS variance
    FROM diff_side s
    JOIN trace t USING (trace_id)
    JOIN kernel k USING (trace_id)
    LEFT JOIN window_op o
        ON o.trace_id = k.trace_id AND o.op_id = k.kernel_id AND o.op_kind = 'kernel'
    LEFT JOIN counted c
        ON  c.side = s.side AND c.trace_id = k.trace_id
        AND c.process_id IS NOT DISTINCT FROM k.process_id
    -- Metrics and summaries have no time axis, hence no window.
    WHERE (o.op_id IS NOT NULL AND c.side IS NOT NULL OR t.kind <> 'timeline')
      AND s.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
    GROUP BY ALL
    UNION ALL
    SELECT s.side, k.name, '', '', sum(k.instances), sum(k.total_ns), NULL
    FROM diff_side s JOIN kernel_aggregate k USING (trace_id)
    GROUP BY ALL
),
units AS (
    SELECT s.side, sum(c.iterations) AS iterations
    FROM (SELECT DISTINCT side FROM diff_side) s LEFT JOIN counted c USING (side)
    GROUP BY s.side
),
per AS (
    SELECT CASE WHEN count(iterations) = 2 THEN 'iteration of a process'
                WHEN count(iterations) = 0 THEN 'whole trace' ELSE 'not alike' END AS per
    FROM units
),
scaled AS (
    SELECT e.side, e.name, e.grid, e.block, e.calls AS executions, e.variance, per.per,
        e.ns / e.calls AS mean_ns,
        CASE WHEN per.per = 'whole trace' THEN 1 ELSE coalesce(u.iterations, 1) END AS units,
        e.calls / units AS calls, round(e.ns / units)::BIGINT AS ns
    FROM executed e JOIN units u USING (side), per
),
paired AS (
    SELECT coalesce(a.name, b.name) AS name, coalesce(a.grid, b.grid) AS grid,
        coalesce(a.block, b.block) AS block, coalesce(a.per, b.per) AS per,
        coalesce(a.calls, 0) AS a_calls, coalesce(b.calls, 0) AS b_calls,
        a.mean_ns AS a_mean_ns, b.mean_ns AS b_mean_ns,
        -- 0 for a missing kernel, but NULL for unknown durations, which coalesce would hide.
        CASE WHEN a.name IS NULL THEN 0 ELSE a.ns END AS a_ns,
        CASE WHEN b.name IS NULL THEN 0 ELSE b.ns END AS b_ns,
        a.name IS NULL AS is_new, b.name IS NULL AS is_gone,
        least(a.executions, b.executions) AS executions,
        -- Standard error of the difference of two means (Welch).
        sqrt(a.variance / a.executions + b.variance / b.executions) AS error_ns
    FROM (SELECT * FROM scaled WHERE side = 'A') a
    FULL JOIN (SELECT * FROM scaled WHERE side = 'B') b
        ON a.name = b.name AND a.grid = b.grid AND a.block = b.block
),
changed AS (
    SELECT *, CASE WHEN per <> 'not alike' THEN b_ns - a_ns END AS change_ns,
        CASE WHEN is_new OR is_gone THEN change_ns
             ELSE round((b_calls - a_calls) * (a_mean_ns + b_mean_ns) / 2)::BIGINT
        END AS calls_effect_ns,
        b_mean_ns - a_mean_ns AS longer_ns,
        abs(longer_ns) >= getvariable('min_change_pct') / 100 * a_mean_ns AS is_large
    FROM paired
)
SELECT name AS kernel_name, nullif(grid, '') AS grid, nullif(block, '') AS block,
    CASE WHEN is_new THEN 'new' WHEN is_gone THEN 'gone' ELSE nullif(concat_ws(', ',
        CASE WHEN longer_ns = 0 OR NOT is_large THEN NULL
             WHEN executions < 3 OR error_ns IS NULL THEN 'unclear'
             WHEN longer_ns > 3 * error_ns THEN 'slower'
             WHEN -longer_ns > 3 * error_ns THEN 'faster' END,
        CASE WHEN change_ns IS NULL THEN NULL
             -- Calls per iteration vary slightly with the iterations in the window.
             WHEN b_calls >= 1.01 * a_calls THEN 'more calls'
             WHEN b_calls <= 0.99 * a_calls THEN 'fewer calls' END), '') END AS status,
    a_calls, b_calls, a_mean_ns, b_mean_ns, a_ns, b_ns, change_ns,
    CASE WHEN change_ns IS NOT NULL THEN calls_effect_ns END AS calls_effect_ns,
    change_ns - calls_effect_ns AS duration_effect_ns, per
FROM changed
ORDER BY abs(coalesce(change_ns, 0)) DESC, a_ns DESC, b_ns DESC, name, grid, block
