/*
title    = "Iterations that do not settle"
question = "Are the iterations steady enough to be measured: little spread, no trend, no autotuning, no growing allocator?"
source   = "sampling rule of Zhu et al. 2018 made explicit (queries/derive/iteration.sql): spread, Theil-Sen trend, kernels seen for the first time, allocations"
grain    = "trace: its least steady process; without a GPU, too"
needs    = ["iteration"]
optional = ["training_window", "gpu_op", "nvtx_meaning", "op_scope", "kernel", "trace"]
[check]
rule = "ROB01"
scope = "trace"
thresholds = "proposed"
advice = "profile later iterations, after autotuning and the allocator have settled; tbd-trace query iteration_timing shows which were left out and why"
collect = "at least ten training iterations after warm-up"
[params.max_spread_pct]
doc = "largest coefficient of variation of the iterations' times, in percent"
default = 5.0
[params.max_trend_pct]
doc = "largest trend of the iterations' times, in percent per 100 iterations, where it is more than their spread"
default = 1.0
[params.iterations_wanted]
doc = "fewer iterations than these may all be warm-up"
default = 10
*/
WITH
setting AS (
    SELECT coalesce(getvariable('max_spread_pct'), 5.0)::DOUBLE AS max_spread_pct,
        coalesce(getvariable('max_trend_pct'), 1.0)::DOUBLE AS max_trend_pct,
        coalesce(getvariable('iterations_wanted'), 10)::BIGINT AS iterations_wanted
),
trained AS (
    SELECT trace_id, process_id, CASE WHEN bool_and(why_not IS NOT NULL) THEN min(why_not) END AS why_not,
        min(advice) AS to_collect
    FROM training_window GROUP BY ALL
    UNION ALL
    -- Training on CPUs is told by the capture, or by its marks.
    SELECT DISTINCT i.trace_id, coalesce(i.process_id, -1),
        CASE WHEN t.capture ->> '$.optimizer' IS NULL AND m.trace_id IS NULL
                  AND NOT coalesce(getvariable('assume_training'), false)
             THEN 'nothing tells that the iterations train: there is no range of a backward pass or an optimizer' END,
        NULL
    FROM iteration i
    JOIN trace t ON t.trace_id = i.trace_id
    LEFT JOIN (SELECT DISTINCT trace_id FROM nvtx_meaning WHERE phase IN ('backward', 'optimizer')) m
        ON m.trace_id = i.trace_id
    WHERE i.trace_id NOT IN (SELECT trace_id FROM gpu_op)
),
-- How much was launched in each iteration: where that varies, times vary by design.
work AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id, o.iteration,
        sum(k.grid_x * k.grid_y * k.grid_z * k.block_x * k.block_y * k.block_z) AS threads
    FROM op_scope o JOIN kernel k ON k.trace_id = o.trace_id AND k.kernel_id = o.op_id
    WHERE o.op_kind = 'kernel' AND o.iteration IS NOT NULL
    GROUP BY ALL
),
-- The stable window, or where there is none what follows the warm-up.
settled AS (
    SELECT i.trace_id, coalesce(i.process_id, -1) AS process_id, i.iteration, i.period_ns,
        i.in_window, w.threads
    FROM (SELECT *, bool_or(in_window) OVER (PARTITION BY trace_id, process_id) AS has_window FROM iteration) i
    LEFT JOIN work w
        ON  w.trace_id = i.trace_id AND w.process_id = coalesce(i.process_id, -1)
        AND w.iteration = i.iteration
    WHERE i.period_ns IS NOT NULL
      AND (i.in_window OR (NOT i.has_window AND i.dropped IN ('no stable window', 'trend or spread')))
),
slope AS (
    SELECT a.trace_id, a.process_id,
        median((b.period_ns - a.period_ns) / (b.iteration - a.iteration)) AS ns_per_iteration
    FROM settled a JOIN settled b USING (trace_id, process_id)
    WHERE b.iteration > a.iteration
    GROUP BY ALL
),
spread AS (
    SELECT trace_id, process_id, count(*) AS n, bool_or(in_window) AS is_stable,
        100.0 * stddev_samp(period_ns) / nullif(avg(period_ns), 0) AS cv_pct,
        stddev_samp(period_ns) AS stddev_ns, median(period_ns) AS median_ns,
        max(iteration) - min(iteration) + 1 AS length,
        100.0 * stddev_samp(threads) / nullif(avg(threads), 0) AS work_cv_pct
    FROM settled GROUP BY ALL
),
counted AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, count(*) AS iterations,
        arg_max(dropped, iteration) FILTER (dropped IN ('first use of a kernel', 'allocator growth')) AS last_growth,
        max(iteration) FILTER (dropped IN ('first use of a kernel', 'allocator growth')) AS last_warm_up
    FROM iteration GROUP BY ALL
),
measured AS (
    SELECT t.trace_id, t.process_id, t.why_not, t.to_collect, c.iterations, c.last_growth,
        c.last_warm_up, coalesce(p.n, 0) AS n, coalesce(p.is_stable, false) AS is_stable, p.cv_pct,
        p.work_cv_pct, nullif(r.capture ->> '$.sequence_policy', 'fixed') AS sequence_policy,
        100 * 100.0 * e.ns_per_iteration / nullif(p.median_ns, 0) AS trend_pct,
        abs(e.ns_per_iteration) * p.length > p.stddev_ns AS has_trend
    FROM trained t
    JOIN trace r ON r.trace_id = t.trace_id
    LEFT JOIN counted c ON c.trace_id = t.trace_id AND c.process_id = t.process_id
    LEFT JOIN spread p ON p.trace_id = t.trace_id AND p.process_id = t.process_id
    LEFT JOIN slope e ON e.trace_id = t.trace_id AND e.process_id = t.process_id
),
judged AS (
    SELECT m.*, s.*,
        CASE
            WHEN n >= 3 AND cv_pct > max_spread_pct THEN 'spread'
            WHEN n >= 3 AND has_trend AND abs(trend_pct) > max_trend_pct THEN 'trend'
            WHEN n < 3 AND iterations >= iterations_wanted AND last_growth IS NOT NULL THEN 'warm-up'
        END AS found,
        CASE
            WHEN m.why_not IS NOT NULL THEN m.why_not
            WHEN n < 3 AND found IS NULL THEN format('only {} of {} iterations follow the warm-up', n, iterations)
            WHEN found = 'spread' AND sequence_policy IS NOT NULL THEN format(
                'times vary by {:.1f} %, but samples differ in length ({}): per token they may be steady', cv_pct, sequence_policy)
            WHEN found = 'spread' AND work_cv_pct > max_spread_pct THEN format(
                'times vary by {:.1f} %, but so does the work: the threads that are launched vary by {:.1f} %', cv_pct, work_cv_pct)
        END AS abstains
    FROM measured m CROSS JOIN setting s
)
SELECT trace_id,
    CASE WHEN abstains IS NOT NULL THEN 'not evaluable' WHEN found IS NOT NULL THEN 'finding' ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN abstains IS NOT NULL OR found = 'warm-up' THEN NULL
         WHEN found = 'trend' THEN trend_pct ELSE cv_pct END AS value,
    CASE WHEN found = 'trend' THEN max_trend_pct WHEN found = 'warm-up' THEN NULL ELSE max_spread_pct END AS threshold,
    CASE WHEN found = 'trend' THEN '% per 100 iterations' WHEN found = 'warm-up' THEN NULL ELSE '%' END AS unit,
    CASE WHEN abstains IS NULL THEN 'timeline' END AS evidence,
    CASE
        WHEN abstains IS NOT NULL THEN abstains
        WHEN found = 'warm-up' THEN format('warm-up lasts until iteration {} of {} ({})', last_warm_up, iterations - 1, last_growth)
        WHEN found = 'trend' THEN format('the times of {} iterations after warm-up change by {:.1f} % in 100 iterations', n, trend_pct)
        WHEN found = 'spread' THEN format('the times of {} iterations after warm-up vary by {:.1f} % (standard deviation ÷ mean)', n, cv_pct)
        ELSE format('the times of {} of {} iterations are {} and vary by {:.1f} %', n, iterations,
            CASE WHEN is_stable THEN 'stable' ELSE 'those after warm-up' END, cv_pct)
    END AS reason,
    CASE
        WHEN verdict = 'not evaluable' THEN to_collect
        WHEN verdict = 'finding' AND found <> 'warm-up'
            THEN 'look for what the slow iterations have in common (tbd-trace query iteration_timing, idle_causes): waiting for data, evaluation or logging in the loop, clocks that change; averages over such iterations mean little'
    END AS advice
FROM judged
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC, cv_pct DESC NULLS LAST, process_id) = 1
ORDER BY trace_id
