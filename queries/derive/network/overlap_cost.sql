/*
title    = "Cost of overlap"
question = """How much longer do compute kernels take while the GPU communicates, and how much does
    this cost?"""
source   = """the same kernel at the same place in the step, under communication in some steps (over
    95 % of its duration) and alone in others; only if the durations alone repeat"""
grain    = "device with compute kernels under communication"
needs    = ["overlapped_kernel"]
returns = [
    "trace_id", "process_id", "device_id", "iterations", "compute_ns", "under_ns", "places",
    "matched_pct", "placebo", "slowdown", "cost_ns", "reason",
]
[columns]
iterations = "iterations with the usual sequence of kernels, in one stream at least"
compute_ns = "compute kernels of an iteration, mean"
under_ns = "part of them under communication"
places = "places with executions under communication and at least 2 alone"
matched_pct = "executions under communication at these places ÷ under_ns of all"
placebo = """mean duration of every second execution alone ÷ median of the others, over places with
    at least 4 of them: 1 if durations repeat; NULL without such a place"""
slowdown = """duration under communication ÷ alone; NULL unless at least 5 % is matched, and the
    placebo is 0.97 to 1.03"""
cost_ns = "under_ns × (1 − 1 ÷ slowdown): what the overlap adds to the kernels of an iteration"
reason = "why the slowdown is NULL; NULL otherwise"
*/
WITH
numbered AS (
    SELECT *, under_ns = 0 AS is_alone, under_ns > 0.95 * duration_ns AS is_under,
        row_number() OVER (
            PARTITION BY trace_id, process_id, device_id, stream_id, place, under_ns = 0
            ORDER BY iteration) % 2 = 0 AS is_second
    FROM overlapped_kernel
),
placed AS (
    SELECT trace_id, process_id, device_id, stream_id, place,
        sum(duration_ns) AS compute_ns, sum(under_ns) AS under_ns,
        count(*) FILTER (is_alone) AS alone,
        median(duration_ns) FILTER (is_alone) AS alone_ns,
        count(*) FILTER (is_under) AS under,
        sum(duration_ns) FILTER (is_under) AS slowed_ns,
        avg(duration_ns) FILTER (is_alone AND is_second) AS second_ns,
        median(duration_ns) FILTER (is_alone AND NOT is_second) AS other_ns
    FROM numbered GROUP BY ALL
),
counted AS (
    SELECT trace_id, process_id, device_id, count(DISTINCT iteration) AS iterations
    FROM overlapped_kernel GROUP BY ALL
),
summed AS (
    SELECT trace_id, process_id, device_id, sum(compute_ns) AS compute_ns,
        sum(under_ns) AS under_ns,
        count(*) FILTER (alone >= 2 AND under >= 1) AS places,
        sum(slowed_ns) FILTER (alone >= 2 AND under >= 1) AS slowed_ns,
        sum(under * alone_ns) FILTER (alone >= 2 AND under >= 1) AS alone_ns,
        -- Sums of fractions depend on their order.
        sum(second_ns ORDER BY stream_id, place) FILTER (alone >= 4)
            / sum(other_ns) FILTER (alone >= 4) AS placebo
    FROM placed GROUP BY ALL
),
evaluated AS (
    SELECT *, 100.0 * coalesce(slowed_ns, 0) / under_ns AS matched_pct,
        CASE
            WHEN places = 0 THEN 'no kernel runs under communication in some steps and alone in '
                || 'two others'
            WHEN matched_pct < 5 THEN format('{:.1f} % of the time under communication is matched '
                || 'by place in the step, below 5 %', matched_pct)
            WHEN placebo IS NULL THEN 'no kernel runs alone in four steps'
            WHEN placebo NOT BETWEEN 0.97 AND 1.03 THEN format('kernels alone do not repeat: their '
                || 'durations differ by a factor of {:.3f}', placebo)
        END AS reason
    FROM summed WHERE under_ns > 0
)
SELECT j.trace_id, j.process_id, j.device_id, c.iterations,
    j.compute_ns / c.iterations AS compute_ns, j.under_ns / c.iterations AS under_ns, j.places,
    j.matched_pct, j.placebo,
    CASE WHEN j.reason IS NULL THEN j.slowed_ns / j.alone_ns END AS slowdown,
    CASE WHEN slowdown IS NOT NULL THEN j.under_ns / c.iterations * (1 - 1 / greatest(slowdown, 1))
    END AS cost_ns, j.reason
FROM evaluated j
JOIN counted c USING (trace_id, process_id, device_id)
ORDER BY j.trace_id, j.process_id, j.device_id
