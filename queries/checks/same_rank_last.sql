/*
title    = "One rank keeps the others waiting"
question = "Is it always the same rank that begins collectives last, and by how much?"
source   = "starts of matched collectives on one clock (straggler)"
grain    = "job of several ranks"
needs    = ["trace"]
optional = ["rank_lateness"]
[check]
rule = "NET02"
scope = "job"
thresholds = "proposed"
advice = """compare that rank with another one (tbd-trace diff): uneven data or layers, an input
    pipeline or clock rate below that of the others, or other programs on its host"""
collect = """traces of all ranks of a job (tbd-trace ingest --job NAME DIRECTORY), with clocks that
    differ by less than the ranks do"""
*/
WITH
-- The straggler, else the rank that is last most often.
worst AS (
    SELECT * FROM rank_lateness
    QUALIFY row_number() OVER (
        PARTITION BY job ORDER BY is_straggler DESC, times_last DESC, rank) = 1
),
setting AS (
    SELECT getvariable('min_share_pct')::DOUBLE AS min_share_pct
),
evaluated AS (
    SELECT w.*, s.min_share_pct,
        CASE WHEN w.verdict = 'same rank' THEN 'finding'
             -- The missing rank can be the late one.
             WHEN w.verdict = 'not evaluable' OR w.missing_ranks IS NOT NULL THEN 'not evaluable'
             ELSE 'pass' END AS answer,
        CASE WHEN w.times_last > 0 THEN format(
            ', by {:.3f} ms{}; the others wait {:.3f} ms for it',
            w.median_lateness_when_last_ns / 1e6,
            coalesce(format(' ({:.1f} % of an iteration)', w.lateness_pct), ''),
            w.caused_wait_ns / 1e6) ELSE '' END AS cost
    FROM worst w CROSS JOIN setting s
)
SELECT NULL::VARCHAR AS trace_id, answer AS verdict,
    CASE WHEN answer = 'finding' THEN 'warning' END AS severity,
    CASE WHEN answer <> 'not evaluable' THEN share_last_pct END AS value,
    min_share_pct AS threshold, '%' AS unit,
    CASE WHEN answer <> 'not evaluable' THEN 'matched collectives' END AS evidence,
    job || ': ' || reason || cost AS reason, NULL::VARCHAR AS advice
FROM evaluated
UNION ALL
SELECT NULL, 'not evaluable', NULL, NULL, min_share_pct, '%', NULL,
    'no job has collectives of at least two ranks', NULL
FROM setting WHERE NOT EXISTS (SELECT 1 FROM evaluated)
ORDER BY trace_id, reason
