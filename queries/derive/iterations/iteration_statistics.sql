/*
title    = "Statistics of iteration times"
question = "How long does an iteration take, how much do times vary, and is there a pattern?"
source   = """mean = total ÷ n, never the mean of rates (Zhu et al. 2018, section 3.4.1); trend:
    Theil-Sen; two groups: Otsu's threshold (IEEE Trans. SMC 9, 1979)"""
grain    = "process and measure"
needs    = ["iteration"]
returns = [
    "trace_id", "process_id", "measure", "n", "total_ns", "mean_ns", "median_ns", "p5_ns", "p95_ns",
    "stddev_ns", "cv_pct", "stalls", "stall_share_pct", "stall_spacing", "typical_ns", "trend_pct",
    "low_ns", "high_ns", "in_turn", "stability", "clock", "measured_over", "method", "confidence",
]
[columns]
measure = "period_ns, host_ns or gpu_ns (iteration)"
n = "iterations counted, with a known time"
total_ns = "sum of the times; NULL without any"
mean_ns = "total ÷ n"
median_ns = "median"
p5_ns = "5th percentile, interpolated"
p95_ns = "95th percentile, interpolated"
stddev_ns = "sample standard deviation; NULL with fewer than two iterations"
cv_pct = "coefficient of variation: standard deviation ÷ mean"
stalls = "iterations longer than 1.5 × the median"
stall_share_pct = "time of the stalls ÷ total"
stall_spacing = """most frequent distance between successive stalls, in iterations, if at least four
    fifths of two or more distances are equal; NULL otherwise, and for consecutive stalls"""
typical_ns = "median of the iterations that are not stalls"
trend_pct = """change from the first to the last iteration by the median slope (Theil-Sen), in
    percent of the mean; NULL if below one standard deviation, or with fewer than ten iterations.
    Above 200 iterations, slopes are between means of up to 200 blocks of neighbours"""
low_ns = """median of the shorter iterations, if times form two groups; NULL otherwise. Two groups
    need at least eight iterations, a quarter of them in each group, group means in a ratio of at
    least 1.5, and a share of explained variance of at least 80 % (75 % + 60 % ÷ √n, if larger; 75 %
    for 16 or more iterations in turn)"""
high_ns = "median of the longer iterations; NULL without two groups"
in_turn = "true if the two groups alternate in nine of ten steps; NULL without two groups"
stability = """quality of the mean: too few iterations, no steady state, two groups of times
    (bimodal), stalls, a trend, a coefficient of variation above 5 %; or steady"""
clock = "clock of the periods: host, or gpu if the host ran ahead (iteration)"
measured_over = "steady state or all iterations"
*/
WITH
measured AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, iteration,
        unnest(['period_ns', 'host_ns', 'gpu_ns']) AS measure,
        unnest([period_ns, host_ns, gpu_ns])::BIGINT AS ns
    FROM iteration WHERE in_window
),
ranked AS (
    SELECT *, row_number() OVER in_order AS place, row_number() OVER by_length AS rank,
        count(*) OVER whole AS n, sum(ns) OVER by_length AS shorter_ns,
        sum(ns) OVER whole AS all_ns,
        median(ns) OVER whole AS median_ns
    FROM measured WHERE ns IS NOT NULL
    WINDOW whole AS (PARTITION BY trace_id, process_id, measure),
        in_order AS (PARTITION BY trace_id, process_id, measure ORDER BY iteration),
        by_length AS (
            PARTITION BY trace_id, process_id, measure
            ORDER BY ns, iteration ROWS UNBOUNDED PRECEDING)
),
summed AS (
    SELECT trace_id, process_id, measure, count(ns) AS n, sum(ns)::BIGINT AS total_ns,
        avg(ns) AS mean_ns, median(ns)::DOUBLE AS median_ns,
        quantile_cont(ns, 0.05)::DOUBLE AS p5_ns, quantile_cont(ns, 0.95)::DOUBLE AS p95_ns,
        -- In one order, so that the last digits are the same each time.
        stddev_samp(ns ORDER BY ns) AS stddev_ns,
        100.0 * stddev_samp(ns ORDER BY ns) / nullif(avg(ns), 0) AS cv_pct
    FROM measured GROUP BY ALL
),
-- Otsu's threshold: the cut of the sorted times with the largest variance between its sides. Evenly
-- distributed times reach 75 % of the total variance, and by chance, in one of a hundred runs, 60 %
-- ÷ √n more.
cut AS (
    SELECT trace_id, process_id, measure, ns AS low_max_ns,
        shorter_ns / rank AS low_mean_ns,
        (all_ns - shorter_ns) / nullif(n - rank, 0) AS high_mean_ns,
        rank::DOUBLE * (n - rank) / n / n * (high_mean_ns - low_mean_ns) ** 2 AS between_variance,
        rank >= n / 4.0 AND n - rank >= n / 4.0 AS is_balanced
    FROM ranked WHERE n >= 8
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id, measure
        ORDER BY between_variance DESC NULLS LAST, rank) = 1
),
two_groups AS (
    SELECT c.trace_id, c.process_id, c.measure, c.low_max_ns,
        c.between_variance
            >= greatest(0.8, 0.75 + 0.6 / sqrt(s.n)) * s.stddev_ns ** 2 * (s.n - 1) / s.n
            AS is_clear
    FROM cut c
    JOIN summed s USING (trace_id, process_id, measure)
    WHERE c.is_balanced AND c.high_mean_ns >= 1.5 * c.low_mean_ns
      AND c.between_variance >= 0.75 * s.stddev_ns ** 2 * (s.n - 1) / s.n
),
grouped AS (
    SELECT r.trace_id, r.process_id, r.measure,
        median(r.ns) FILTER (NOT r.is_long)::DOUBLE AS low_ns,
        median(r.ns) FILTER (r.is_long)::DOUBLE AS high_ns,
        avg((r.is_long <> r.was_long)::INTEGER) >= 0.9 AS in_turn
    FROM (
        SELECT k.*, g.is_clear, k.ns > g.low_max_ns AS is_long,
            lag(k.ns) OVER (PARTITION BY k.trace_id, k.process_id, k.measure ORDER BY k.place)
                > g.low_max_ns AS was_long
        FROM ranked k JOIN two_groups g USING (trace_id, process_id, measure)
    ) r
    GROUP BY ALL
    -- Sixteen iterations do not alternate by chance.
    HAVING bool_and(r.is_clear) OR (in_turn AND count(*) >= 16)
),
stall AS (
    SELECT *,
        place - lag(place) OVER (PARTITION BY trace_id, process_id, measure ORDER BY place)
            AS distance
    FROM ranked WHERE ns > 1.5 * median_ns
),
stalled AS (
    SELECT trace_id, process_id, measure, count(*) AS stalls, sum(ns) AS stall_ns
    FROM stall GROUP BY ALL
),
spaced AS (
    SELECT trace_id, process_id, measure, distance AS stall_spacing
    FROM (
        SELECT *, sum(times) OVER (PARTITION BY trace_id, process_id, measure) AS distances
        FROM (
            SELECT trace_id, process_id, measure, distance, count(*) AS times
            FROM stall WHERE distance IS NOT NULL GROUP BY ALL
        )
    )
    WHERE distances >= 2 AND times >= 0.8 * distances AND distance > 1
),
usual AS (
    SELECT trace_id, process_id, measure, median(ns)::DOUBLE AS typical_ns
    FROM ranked WHERE NOT ns > 1.5 * median_ns GROUP BY ALL
),
-- Blocks of neighbours; taking every n-th iteration would hide patterns with a period of n.
block AS (
    SELECT trace_id, process_id, measure, (place - 1) // ceil(n / 200.0)::BIGINT AS block,
        avg(place) AS place, avg(ns) AS ns
    FROM ranked WHERE n >= 10 GROUP BY ALL
),
slope AS (
    SELECT a.trace_id, a.process_id, a.measure, median((b.ns - a.ns) / (b.place - a.place)) AS slope
    FROM block a JOIN block b USING (trace_id, process_id, measure)
    WHERE b.place > a.place GROUP BY ALL
),
recognition AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, any_value(clock) AS clock,
        any_value(measured_over) AS measured_over, any_value(method) AS method,
        any_value(confidence) AS confidence
    FROM iteration GROUP BY ALL
),
evaluated AS (
    SELECT s.*, coalesce(t.stalls, 0) AS stalls,
        100.0 * coalesce(t.stall_ns, 0) / nullif(s.total_ns, 0) AS stall_share_pct,
        p.stall_spacing, u.typical_ns,
        CASE WHEN abs(l.slope) * s.n > s.stddev_ns
             THEN 100.0 * l.slope * (s.n - 1) / nullif(s.mean_ns, 0) END AS trend_pct,
        g.low_ns, g.high_ns, g.in_turn, f.clock, f.measured_over, f.method, f.confidence
    FROM summed s
    JOIN recognition f USING (trace_id, process_id)
    LEFT JOIN stalled t USING (trace_id, process_id, measure)
    LEFT JOIN spaced p USING (trace_id, process_id, measure)
    LEFT JOIN usual u USING (trace_id, process_id, measure)
    LEFT JOIN slope l USING (trace_id, process_id, measure)
    LEFT JOIN grouped g USING (trace_id, process_id, measure)
)
SELECT trace_id, nullif(process_id, -1) AS process_id, measure, n, total_ns, mean_ns, median_ns,
    p5_ns, p95_ns, stddev_ns, cv_pct, stalls, stall_share_pct, stall_spacing, typical_ns, trend_pct,
    low_ns, high_ns, in_turn,
    coalesce(nullif(concat_ws('; ',
        CASE WHEN n = 0 THEN 'not known'
             WHEN n < 3 THEN 'too few iterations to tell: ' || n
             WHEN n < 10 THEN format('{} iterations, at least 10 are wanted', n) END,
        CASE WHEN measured_over = 'all iterations'
             THEN 'no steady state: more than half of the iterations show signs of warm-up' END,
        CASE WHEN low_ns IS NOT NULL
             THEN format('bimodal: {:.4g} ms and {:.4g} ms{}', low_ns / 1e6, high_ns / 1e6,
                 CASE WHEN in_turn THEN ' in turn' ELSE '' END) END,
        CASE WHEN stalls > 0 AND n >= 3 AND in_turn IS NOT TRUE
             THEN format('{} of {} iterations stall and take {:.1f} % of the time{}', stalls, n,
                 stall_share_pct,
                 coalesce(format(', every {} iterations', stall_spacing), '')) END,
        CASE WHEN trend_pct IS NOT NULL
             THEN format('trend: {:+.1f} % from first to last', trend_pct) END,
        CASE WHEN n >= 3 AND stalls = 0 AND low_ns IS NULL AND trend_pct IS NULL AND cv_pct > 5
             THEN format('varies: coefficient of variation {:.1f} %', cv_pct) END
    ), ''), 'steady') AS stability,
    clock, measured_over, method, confidence
FROM evaluated
