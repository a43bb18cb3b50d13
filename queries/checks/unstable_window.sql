/*
title    = "Unsteady iterations"
question = """Are the iterations steady enough to measure: small spread, no trend, and an end of the
    warm-up?"""
source   = """spread and Theil-Sen trend of the iterations after warm-up
    (queries/derive/iterations/iteration.sql)"""
grain    = "trace: its least steady process, with or without a GPU"
needs    = ["iteration"]
optional = [
    "iteration_statistics", "training_window", "gpu_op", "annotation_semantics", "op_scope",
    "kernel", "trace",
]
reduce   = "concat"
[check]
rule = "ROB01"
scope = "trace"
thresholds = "proposed"
advice = """profile later iterations, after autotuning and the allocator have settled; tbd-trace
    query iteration_timing shows the signs of warm-up of each iteration"""
collect = "at least ten training iterations after warm-up"
[params.max_spread_pct]
doc = "maximum coefficient of variation of the iteration times, in percent"
default = 5.0
[params.max_trend_pct]
doc = """maximum trend of the iteration times, in percent per 100 iterations; a trend below the
    spread is ignored"""
default = 1.0
[params.iterations_wanted]
doc = "minimum number of iterations to report warm-up without an end"
default = 10
*/
WITH
setting AS (
    SELECT getvariable('max_spread_pct')::DOUBLE AS max_spread_pct,
        getvariable('max_trend_pct')::DOUBLE AS max_trend_pct,
        getvariable('iterations_wanted')::BIGINT AS iterations_wanted
),
trained AS (
    -- One device that trains is enough for its process.
    SELECT trace_id, process_id,
        CASE WHEN bool_and(why_not IS NOT NULL) THEN min(why_not) END AS why_not,
        min(advice) AS to_collect
    FROM training_window GROUP BY ALL
    UNION ALL
    -- Without GPU work, the capture or marked phases show whether the program trains.
    SELECT DISTINCT i.trace_id, coalesce(i.process_id, -1),
        CASE WHEN t.capture ->> '$.optimizer' IS NULL AND m.trace_id IS NULL
                  AND NOT getvariable('assume_training')
             THEN 'no evidence of training: no optimizer in capture.json, and no range of a '
                || 'backward pass or an optimizer' END,
        NULL
    FROM iteration i
    JOIN trace t ON t.trace_id = i.trace_id
    LEFT JOIN (
        SELECT DISTINCT trace_id FROM annotation_semantics
        WHERE phase IN ('backward', 'optimizer')
    ) m ON m.trace_id = i.trace_id
    WHERE i.trace_id NOT IN (SELECT trace_id FROM gpu_op)
),
-- Launched threads per iteration: if the work varies, times vary by design.
work AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id, o.iteration,
        sum(k.grid_x::HUGEINT * k.grid_y * k.grid_z * k.block_x * k.block_y * k.block_z) AS threads
    FROM op_scope o JOIN kernel k ON k.trace_id = o.trace_id AND k.kernel_id = o.op_id
    WHERE o.op_kind = 'kernel' AND o.iteration IS NOT NULL
    GROUP BY ALL
),
counted AS (
    SELECT i.trace_id, coalesce(i.process_id, -1) AS process_id, count(*) AS iterations,
        count(*) FILTER (i.in_window AND i.warm_up IS NOT NULL) AS late_signs,
        arg_max(i.warm_up, i.iteration) AS last_sign,
        max(i.iteration) FILTER (i.warm_up IS NOT NULL) AS last_warm_up,
        100.0 * stddev_samp(w.threads) FILTER (i.in_window)
            / nullif(avg(w.threads) FILTER (i.in_window), 0) AS work_cv_pct
    FROM iteration i
    LEFT JOIN work w
        ON  w.trace_id = i.trace_id AND w.process_id = coalesce(i.process_id, -1)
        AND w.iteration = i.iteration
    GROUP BY ALL
),
measured AS (
    SELECT t.trace_id, t.process_id, t.why_not, t.to_collect, c.* EXCLUDE (trace_id, process_id),
        coalesce(p.n, 0) AS n, p.cv_pct, p.stability, p.measured_over,
        nullif(r.capture ->> '$.sequence_policy', 'fixed') AS sequence_policy,
        -- From the change over all n iterations to that over 100 iterations.
        100 * p.trend_pct / (p.n - 1) AS trend_pct
    FROM trained t
    JOIN trace r ON r.trace_id = t.trace_id
    LEFT JOIN counted c ON c.trace_id = t.trace_id AND c.process_id = t.process_id
    LEFT JOIN iteration_statistics p
        ON  p.trace_id = t.trace_id AND coalesce(p.process_id, -1) = t.process_id
        AND p.measure = 'period_ns'
),
evaluated AS (
    SELECT m.*, s.*,
        CASE
            WHEN measured_over = 'all iterations' AND iterations >= iterations_wanted THEN 'warm-up'
            WHEN n >= 3 AND cv_pct > max_spread_pct THEN 'spread'
            WHEN abs(trend_pct) > max_trend_pct THEN 'trend'
        END AS found,
        CASE
            WHEN m.why_not IS NOT NULL THEN m.why_not
            WHEN n < 3 AND found IS NULL THEN format(
                'only {} of {} iterations follow the warm-up and have a known period',
                n, iterations)
            WHEN measured_over = 'all iterations' AND iterations < iterations_wanted THEN format(
                'more than half of {} iterations show signs of warm-up; at least {} iterations are '
                    || 'needed',
                iterations, iterations_wanted)
            WHEN found = 'spread' AND sequence_policy IS NOT NULL THEN format(
                'times vary by {:.1f} %, but samples differ in length (sequence policy {}); times '
                    || 'per token may be steady',
                cv_pct, sequence_policy)
            WHEN found = 'spread' AND work_cv_pct > max_spread_pct THEN format(
                'times vary by {:.1f} %, but so does the work: launched threads vary by {:.1f} %',
                cv_pct, work_cv_pct)
        END AS abstains
    FROM measured m CROSS JOIN setting s
)
SELECT trace_id,
    CASE WHEN abstains IS NOT NULL THEN 'not evaluable' WHEN found IS NOT NULL THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN abstains IS NOT NULL OR found = 'warm-up' THEN NULL
         WHEN found = 'trend' THEN trend_pct ELSE cv_pct END AS value,
    CASE WHEN found = 'trend' THEN max_trend_pct WHEN found = 'warm-up' THEN NULL
         ELSE max_spread_pct END AS threshold,
    CASE WHEN found = 'trend' THEN '% per 100 iterations' WHEN found = 'warm-up' THEN NULL
         ELSE '%' END AS unit,
    CASE WHEN abstains IS NULL THEN 'timeline' END AS evidence,
    CASE
        WHEN abstains IS NOT NULL THEN abstains
        WHEN found = 'warm-up' THEN format(
            'more than half of {} iterations show signs of warm-up, the last one iteration {} ({})',
            iterations, last_warm_up, last_sign)
        WHEN found = 'trend' THEN format(
            'the times of {} iterations after warm-up change by {:.1f} % per 100 iterations',
            n, trend_pct)
        WHEN found = 'spread' THEN format(
                'the times of {} iterations after warm-up vary by {:.1f} % (standard deviation ÷ '
                    || 'mean); {}',
                n, cv_pct, stability)
            || CASE WHEN late_signs > 0 THEN format(
                    '; {} of them allocate memory or use a kernel for the first time', late_signs)
                ELSE '' END
        ELSE format('the times of {} iterations after warm-up (of {}) vary by {:.1f} %',
            n, iterations, cv_pct)
    END AS reason,
    CASE
        WHEN verdict = 'not evaluable' THEN to_collect
        WHEN verdict = 'finding' AND found <> 'warm-up'
            THEN 'compare the slow iterations (tbd-trace query iteration_timing, idle_causes): '
                || 'look for waits for input, evaluation or logging in the loop, clock changes; '
                || 'report the mean with its stall share instead of the median'
    END AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC,
        cv_pct DESC NULLS LAST, process_id) = 1
ORDER BY trace_id
