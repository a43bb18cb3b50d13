/*
title    = "Estimates of clock offsets"
question = "By how much does the clock of each rank differ from that of the lowest rank?"
source   = """one file has one clock; UTC of the traces; ends of synchronizing collectives: median,
    or from 30 collectives in 5 s on, a line through 60 medians (Theil-Sen)"""
grain    = "rank of a job other than the lowest, and method"
needs    = ["_collective_match"]
returns = [
    "job", "rank", "reference_rank", "method", "offset_ns", "drift_ppm", "reference_ns",
    "uncertainty_ns", "collectives", "is_used", "contradiction",
]
[params.utc_uncertainty_ms]
doc = "uncertainty of UTC between hosts, in milliseconds"
default = 1.0
[columns]
reference_rank = "lowest rank of the job with collectives"
method = "same file, UTC of one host, UTC, collective ends"
offset_ns = "clock of the rank − clock of the reference rank, at reference_ns"
drift_ppm = {unit = "ppm", doc = "growth of the offset; NULL where it is not estimated"}
reference_ns = "time on the clock of the reference rank at which the offset holds"
uncertainty_ns = """same file 1 us, UTC of one host 100 us, UTC by parameter; of collective ends the
    95th percentile of the residuals, at least 20 us on GPUs and 10 ms on hosts"""
collectives = "matched collectives behind an estimate from their ends; NULL for other methods"
is_used = """true for the estimate with the smallest uncertainty that the collectives do not
    contradict"""
contradiction = "why an estimate is impossible; NULL otherwise"
*/
WITH
lowest AS (
    SELECT job, min(rank) AS reference_rank FROM _collective_match GROUP BY job
),
own AS (
    SELECT job, rank, min(trace_id) AS trace_id, min(utc_start_ns) AS utc_start_ns,
        min(host) AS host
    FROM _collective_match GROUP BY ALL
),
stated AS (
    SELECT o.job, o.rank, l.reference_rank,
        unnest([
            CASE WHEN o.trace_id = r.trace_id THEN {'method': 'same file', 'offset_ns': 0::DOUBLE,
                'uncertainty_ns': 1e3} END,
            CASE WHEN o.trace_id <> r.trace_id AND o.utc_start_ns IS NOT NULL
                    AND r.utc_start_ns IS NOT NULL
                THEN {'method': if(o.host = r.host, 'UTC of one host', 'UTC'),
                    'offset_ns': (r.utc_start_ns::HUGEINT - o.utc_start_ns)::DOUBLE,
                    'uncertainty_ns': if(o.host = r.host, 1e5,
                        1e6 * getvariable('utc_uncertainty_ms')::DOUBLE)} END
        ]) AS s
    FROM own o JOIN lowest l USING (job)
    JOIN own r ON r.job = o.job AND r.rank = l.reference_rank
    WHERE o.rank > l.reference_rank
),
-- Differences to the smallest one, which doubles hold exactly.
ends AS (
    SELECT o.job, o.rank, r.end_ns - min(r.end_ns) OVER pair AS after_ns,
        min(r.end_ns) OVER pair AS reference_ns,
        (o.end_ns - r.end_ns) - min(o.end_ns - r.end_ns) OVER pair AS above_ns,
        min(o.end_ns - r.end_ns) OVER pair AS least_ns, o.source = 'kernel' AS is_gpu
    FROM _collective_match o
    JOIN lowest l ON l.job = o.job
    JOIN _collective_match r
        ON  r.job = o.job AND r.communicator = o.communicator AND r.sequence = o.sequence
        AND r.rank = l.reference_rank
    WHERE o.rank > l.reference_rank AND o.is_synchronizing AND o.mismatch IS NULL
    WINDOW pair AS (PARTITION BY o.job, o.rank)
),
middle AS (
    SELECT job, rank, bin, median(after_ns) AS after_ns, median(above_ns) AS above_ns
    FROM (
        SELECT *, ntile(60) OVER (PARTITION BY job, rank ORDER BY after_ns, above_ns) AS bin
        FROM ends
    )
    GROUP BY ALL
),
slope AS (
    SELECT a.job, a.rank,
        median((b.above_ns - a.above_ns) / (b.after_ns - a.after_ns)) AS slope
    FROM middle a
    JOIN middle b ON b.job = a.job AND b.rank = a.rank AND b.after_ns > a.after_ns
    GROUP BY ALL
),
fitted AS (
    SELECT e.*, CASE WHEN count(*) OVER pair >= 30 AND max(e.after_ns) OVER pair >= 5e9
        THEN s.slope END AS drift
    FROM ends e LEFT JOIN slope s USING (job, rank)
    WINDOW pair AS (PARTITION BY e.job, e.rank)
),
line AS (
    SELECT job, rank, any_value(drift) AS drift,
        median(above_ns - coalesce(drift, 0) * after_ns) AS intercept
    FROM fitted GROUP BY ALL
),
of_ends AS (
    SELECT f.job, f.rank, any_value(l.intercept) + any_value(f.least_ns) AS offset_ns,
        any_value(f.reference_ns) AS reference_ns,
        1e6 * any_value(l.drift) AS drift_ppm, count(*) AS collectives,
        greatest(if(bool_and(f.is_gpu), 2e4, 1e7), quantile_cont(
            abs(f.above_ns - l.intercept - coalesce(l.drift, 0) * f.after_ns), 0.95))
            AS uncertainty_ns
    FROM fitted f JOIN line l USING (job, rank) GROUP BY ALL
),
every AS (
    SELECT s.job, s.rank, s.s.method AS method, s.s.offset_ns AS offset_ns,
        NULL::DOUBLE AS drift_ppm, e.reference_ns, s.s.uncertainty_ns AS uncertainty_ns,
        NULL::BIGINT AS collectives,
        CASE WHEN abs(s.s.offset_ns - e.offset_ns) > 3 * e.uncertainty_ns + s.s.uncertainty_ns
            THEN format('collectives end {:.3f} s apart by this clock',
                abs(s.s.offset_ns - e.offset_ns) / 1e9) END AS contradiction
    FROM stated s LEFT JOIN of_ends e ON e.job = s.job AND e.rank = s.rank
    WHERE s.s IS NOT NULL
    UNION ALL
    SELECT job, rank, 'collective ends', offset_ns, drift_ppm, reference_ns, uncertainty_ns,
        collectives, NULL
    FROM of_ends
)
SELECT e.job, e.rank, l.reference_rank, e.method, round(e.offset_ns)::BIGINT AS offset_ns,
    e.drift_ppm, e.reference_ns, round(e.uncertainty_ns)::BIGINT AS uncertainty_ns, e.collectives,
    e.contradiction IS NULL AND row_number() OVER (PARTITION BY e.job, e.rank
        ORDER BY e.contradiction IS NOT NULL, e.uncertainty_ns, e.method) = 1 AS is_used,
    e.contradiction
FROM every e JOIN lowest l USING (job)
