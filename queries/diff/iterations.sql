/*
title    = "Iterations of two runs"
question = "Is an iteration of B faster or slower than one of A, beyond the noise within the runs?"
source   = """Hodges-Lehmann estimate of the ratio (shift of the logarithms) with the interval of
    the Mann-Whitney test (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, section
    4.3), normal approximation; the standard deviation is multiplied by that of the mean of an AR(1)
    process with the autocorrelation at lag 1, relative to independent values. With too few
    iterations for it, the exact interval of that test: all ratios"""
grain    = "measure over all processes, and per process if a side has several"
needs    = ["diff_side", "iteration"]
optional = ["process", "trace"]
[params.min_change_pct]
doc = """minimum change to report, in percent of A; one run per side does not show the variation
    between runs"""
default = 1.0
[columns]
rank = """number of the process on each side, ordered by trace name and process id; NULL for all
    processes: each iteration is the mean over the processes"""
pid_a = "process in A; NULL for all processes and when unknown"
pid_b = "process in B; NULL for all processes and when unknown"
measure = """period_ns (start to start, on the clock of iteration), host_ns or gpu_ns
    (iteration_timing)"""
n_a = "iterations counted in A: the steady state, or all iterations without a steady state"
n_b = "iterations counted in B"
mean_a_ns = "mean in A, stalls included"
mean_b_ns = "mean in B"
median_a_ns = "median in A"
median_b_ns = "median in B"
change_ns = "mean in B − mean in A"
change_pct = """Hodges-Lehmann estimate: median of the ratios of each iteration of B to each of A,
    minus 1"""
low_pct = "lower end of its interval; NULL with fewer than three iterations on a side"
high_pct = "upper end of its interval; NULL with fewer than three iterations on a side"
confidence_pct = """confidence of the interval: 95, or with few iterations that of all ratios, 1 − 2
    ÷ the number of ways to divide the iterations between the sides (90 for 3 and 3)"""
noise_pct = """smallest change that would be significant: distance from the change to the end of the
    interval closer to 0, at least min_change_pct"""
autocorrelation = """autocorrelation of the logarithms of successive iterations (lag 1) over both
    sides, at least 0"""
verdict = """faster or slower if the interval excludes 0 and the change reaches min_change_pct, else
    no change beyond noise; NULL if reason is set. With all ratios as the interval, the change must
    also be twice the range of the iterations of a side: of equal runs, over 95 of 100 then show no
    change"""
reason = "reason for a missing verdict; NULL with a verdict"
*/
WITH
-- 1.959964: two-sided 95 % quantile of the normal distribution.
setting AS (
    SELECT 1.959964 AS z, getvariable('min_change_pct')::DOUBLE AS least_pct,
        3 AS fewest, 2 AS ranges
),
counted AS (
    SELECT i.trace_id, coalesce(i.process_id, -1) AS process_id, i.iteration, i.host_ns, i.gpu_ns,
        i.period_ns,
        i.in_window AS counts
    FROM iteration i
),
ranked AS (
    SELECT s.side, w.trace_id, w.process_id, p.pid,
        row_number() OVER (
            PARTITION BY s.side ORDER BY t.name, w.trace_id, p.pid, w.process_id) - 1 AS rank
    FROM diff_side s
    JOIN (SELECT DISTINCT trace_id, process_id FROM counted) w USING (trace_id)
    JOIN trace t USING (trace_id)
    LEFT JOIN process p ON p.trace_id = w.trace_id AND p.process_id = w.process_id
),
measured AS (
    SELECT r.side, r.rank, c.iteration, unnest(['period_ns', 'host_ns', 'gpu_ns']) AS measure,
        unnest([c.period_ns, c.host_ns, c.gpu_ns])::DOUBLE AS ns
    FROM ranked r JOIN counted c USING (trace_id, process_id)
    WHERE c.counts
),
-- Processes wait for each other, so their times are not independent: over all processes, the mean
-- of an iteration is one sample.
series AS (
    SELECT side, NULL::BIGINT AS rank, iteration, measure, avg(ns ORDER BY rank) AS ns
    FROM (
        SELECT *, count(DISTINCT rank) OVER (PARTITION BY side, measure) AS ranks
        FROM measured WHERE ns > 0
    )
    GROUP BY side, iteration, measure, ranks HAVING count(*) = ranks
    UNION ALL
    SELECT side, rank, iteration, measure, ns FROM measured
    WHERE ns > 0 AND (SELECT max(rank) FROM ranked) > 0
),
-- The number of ratios is the product of both lengths: take at most 500 iterations per side, evenly
-- spaced, for at most 250,000 ratios.
numbered AS (
    SELECT *, coalesce(rank, -1) AS series,
        row_number() OVER (PARTITION BY side, rank, measure ORDER BY iteration) AS position,
        count(*) OVER (PARTITION BY side, rank, measure) AS total
    FROM series
),
taken AS (SELECT * FROM numbered WHERE position % ceil(total / 500.0) = 0),
-- Rounded, because the last digit of the mean would otherwise give equal times a deviation.
successive AS (
    SELECT *, round(ln(ns) - avg(ln(ns)) OVER whole, 12) AS deviation,
        round(lead(ln(ns)) OVER (whole ORDER BY position) - avg(ln(ns)) OVER whole, 12)
            AS next_deviation
    FROM taken WINDOW whole AS (PARTITION BY side, series, measure)
),
-- One autocorrelation for both sides: the test assumes two samples that differ in the median only.
-- At most 0.9, because the variance diverges at 1.
likeness AS (
    SELECT series, measure,
        coalesce(least(0.9, greatest(0, sum(deviation * next_deviation ORDER BY side, position)
            / nullif(sum(deviation ** 2 ORDER BY side, position), 0))), 0) AS rho
    FROM successive GROUP BY ALL
),
summed AS (
    SELECT side, series, measure, rho, count(*) AS taken,
        -- Variance of the mean of n values of an AR(1) process ÷ that of n independent values.
        (1 + rho) / (1 - rho)
            - 2 * rho * (1 - rho ** count(*)) / (count(*) * (1 - rho) ** 2) AS inflation
    FROM taken JOIN likeness USING (series, measure) GROUP BY side, series, measure, rho
),
middle AS (
    SELECT series, measure,
        count(*) FILTER (side = 'A') AS n_a, count(*) FILTER (side = 'B') AS n_b,
        avg(ns) FILTER (side = 'A') AS mean_a_ns, avg(ns) FILTER (side = 'B') AS mean_b_ns,
        median(ns) FILTER (side = 'A') AS median_a_ns, median(ns) FILTER (side = 'B') AS median_b_ns
    FROM numbered GROUP BY ALL
),
shifted AS (
    SELECT a.series, a.measure, list_sort(list(ln(b.ns / a.ns))) AS ratios,
        median(ln(b.ns / a.ns)) AS ratio
    FROM taken a JOIN taken b USING (series, measure)
    WHERE a.side = 'A' AND b.side = 'B'
    GROUP BY ALL
),
-- Position of the lower end of the interval in the sorted ratios (Mann-Whitney test).
placed AS (
    SELECT s.*, a.rho AS autocorrelation,
        (a.inflation / a.taken + b.inflation / b.taken) / (1 / a.taken + 1 / b.taken) AS widening,
        floor(
            a.taken * b.taken / 2
            - z * sqrt(widening * a.taken * b.taken * (a.taken + b.taken + 1) / 12)
        )::BIGINT AS lower_end
    FROM shifted s
    JOIN summed a ON a.series = s.series AND a.measure = s.measure AND a.side = 'A'
    JOIN summed b ON b.series = s.series AND b.measure = s.measure AND b.side = 'B'
    CROSS JOIN setting
),
-- Range of the iterations of a side, as a logarithm of ratios.
spread AS (
    SELECT series, measure, max(largest - smallest) AS log_range
    FROM (
        SELECT side, series, measure, max(ln(ns)) AS largest, min(ln(ns)) AS smallest
        FROM taken GROUP BY ALL
    )
    GROUP BY ALL
),
bounded AS (
    SELECT m.*, m.mean_b_ns - m.mean_a_ns AS change_ns, p.autocorrelation, least_pct,
        100 * (exp(p.ratio) - 1) AS change_pct,
        p.lower_end < 1 AND least(m.n_a, m.n_b) >= fewest AS is_few,
        CASE WHEN is_few THEN 1 WHEN p.lower_end >= 1 THEN p.lower_end END AS bound,
        100 * (exp(p.ratios[bound]) - 1) AS low_pct,
        100 * (exp(p.ratios[-bound]) - 1) AS high_pct,
        -- Ways to divide the iterations: (n_a + n_b)! ÷ (n_a! n_b!).
        CASE WHEN is_few THEN 100 * (1 - 2 * exp(
            lgamma(m.n_a + 1) + lgamma(m.n_b + 1) - lgamma(m.n_a + m.n_b + 1)))
            WHEN bound IS NOT NULL THEN 95 END AS confidence_pct,
        is_few AND abs(p.ratio) < ranges * r.log_range AS is_within_range
    FROM middle m
    LEFT JOIN placed p USING (series, measure)
    LEFT JOIN spread r USING (series, measure)
    CROSS JOIN setting
)
SELECT nullif(b.series, -1) AS rank, x.pid AS pid_a, y.pid AS pid_b, b.measure, b.n_a, b.n_b,
    b.mean_a_ns, b.mean_b_ns, b.median_a_ns, b.median_b_ns, b.change_ns, b.change_pct, b.low_pct,
    b.high_pct, b.confidence_pct,
    greatest(CASE WHEN b.change_pct > 0 THEN b.change_pct - b.low_pct
                  WHEN b.change_pct < 0 THEN b.high_pct - b.change_pct
                  ELSE greatest(b.high_pct, -b.low_pct) END, b.least_pct) AS noise_pct,
    b.autocorrelation,
    CASE WHEN b.low_pct IS NULL THEN NULL
         WHEN b.is_within_range THEN 'no change beyond noise'
         WHEN b.low_pct > 0 AND b.change_pct >= b.least_pct THEN 'slower'
         WHEN b.high_pct < 0 AND b.change_pct <= -b.least_pct THEN 'faster'
         ELSE 'no change beyond noise' END AS verdict,
    CASE WHEN b.n_a = 0 OR b.n_b = 0 THEN 'only one side has such iterations'
         WHEN b.low_pct IS NULL THEN 'too few iterations to tell a change from noise' END AS reason
FROM bounded b
LEFT JOIN ranked x ON x.side = 'A' AND x.rank = b.series
LEFT JOIN ranked y ON y.side = 'B' AND y.rank = b.series
ORDER BY rank NULLS FIRST, CASE b.measure WHEN 'period_ns' THEN 0 WHEN 'host_ns' THEN 1 ELSE 2 END
