/*
title    = "Throughput drops with a larger batch"
question = "Does throughput grow with the batch size?"
source   = """Zhu et al. 2018, observation 1 (paraphrased from memory): Spearman rank correlation of
    throughput and batch size"""
grain    = "batch-size sweep: captures that differ only in batch size"
needs    = ["trace"]
optional = ["benchmark_run"]
[check]
rule = "OBS01"
scope = "sweep"
thresholds = "proposed"
advice = """compare the batch sizes around the drop (tbd-trace query suite_compare, kernel_summary):
    look for other algorithms, a lack of memory, or an input pipeline at its limit; train with the
    batch before the drop"""
collect = """captures of one model with three or more batch sizes (tbd-trace collect MODEL
    --batch-size 8,16,32 -o DIR)"""
[params.min_rank_correlation]
doc = "rank correlation of throughput and batch size from which throughput grows"
default = 0.9
*/
WITH
setting AS (
    SELECT getvariable('min_rank_correlation')::DOUBLE AS min_rank_correlation
),
-- Equal values share the mean of their ranks, as in Spearman's definition.
run AS (
    SELECT *,
        rank() OVER by_batch
            + (count(*) OVER (PARTITION BY workload, software, gpu, batch_size) - 1) / 2
            AS batch_rank,
        rank() OVER by_rate
            + (count(*) OVER (PARTITION BY workload, software, gpu, samples_per_s) - 1) / 2
            AS rate_rank
    FROM benchmark_run
    WINDOW by_batch AS (PARTITION BY workload, software, gpu ORDER BY batch_size),
        by_rate AS (PARTITION BY workload, software, gpu ORDER BY samples_per_s)
),
-- The largest relative drop from a batch to a larger one whose intervals do not overlap.
dropped AS (
    SELECT a.workload, a.software, a.gpu,
        arg_min(
            format('throughput drops from {:.4g} samples/s at batch {} to {:.4g} at batch {}',
                a.samples_per_s, a.batch_size, b.samples_per_s, b.batch_size),
            {'ratio': b.samples_per_s / a.samples_per_s, 'a': a.batch_size, 'b': b.batch_size}
        ) AS drop
    FROM run a
    JOIN run b
        ON  b.workload = a.workload AND b.software IS NOT DISTINCT FROM a.software
        AND b.gpu IS NOT DISTINCT FROM a.gpu
        AND b.batch_size > a.batch_size AND b.high_samples_per_s < a.low_samples_per_s
    GROUP BY a.workload, a.software, a.gpu
),
sweep AS (
    SELECT r.workload, r.software, r.gpu, any_value(r.sweep) AS sweep,
        any_value(r.evidence) AS evidence,
        any_value(d.drop) AS drop, count(DISTINCT r.batch_size) AS batches,
        min(r.batch_size) AS smallest, max(r.batch_size) AS largest,
        count(r.low_samples_per_s) = count(*) AS has_intervals,
        arg_min(r.high_samples_per_s, r.batch_size)
            < arg_max(r.low_samples_per_s, r.batch_size) AS has_grown,
        CASE WHEN count(DISTINCT r.rate_rank) > 1 AND batches > 1
             THEN corr(r.rate_rank, r.batch_rank) END AS rho
    FROM run r
    LEFT JOIN dropped d
        ON  d.workload = r.workload AND d.software IS NOT DISTINCT FROM r.software
        AND d.gpu IS NOT DISTINCT FROM r.gpu
    GROUP BY r.workload, r.software, r.gpu
),
evaluated AS (
    SELECT *,
        CASE
            WHEN batches < 3 THEN format('{}: {} of 3 required batch sizes', sweep, batches)
            WHEN NOT has_intervals
                THEN sweep
                    || ': the variation of iteration times is unknown, so a drop may be noise'
            WHEN drop IS NULL AND (rho IS NULL OR rho < min_rank_correlation OR NOT has_grown)
                THEN format(
                    '{}: the throughput intervals overlap; from batch {} to {}, neither growth nor '
                        || 'a drop is significant',
                    sweep, smallest, largest)
        END AS why_not,
        format('rank correlation {:.2f} of throughput and batch size over {} batch sizes, {} to {}',
            rho, batches, smallest, largest) AS ranked
    FROM sweep CROSS JOIN setting
),
answer AS (
    SELECT
        CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN drop IS NOT NULL THEN 'finding'
             ELSE 'pass' END AS verdict,
        rho, min_rank_correlation, evidence, why_not,
        coalesce(why_not, sweep || ': ' || concat_ws('; ', drop, ranked)) AS reason
    FROM evaluated
    UNION ALL
    SELECT 'not evaluable', NULL, min_rank_correlation, NULL, '',
        'no capture records its model, batch size and throughput'
    FROM setting WHERE NOT EXISTS (SELECT 1 FROM benchmark_run)
)
SELECT NULL::VARCHAR AS trace_id, verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN rho END AS value,
    min_rank_correlation AS threshold, NULL::VARCHAR AS unit,
    CASE WHEN verdict <> 'not evaluable' THEN evidence END AS evidence, reason,
    NULL::VARCHAR AS advice
FROM answer
ORDER BY trace_id, reason
