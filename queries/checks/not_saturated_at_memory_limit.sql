/*
title    = "Throughput limited by GPU memory"
question = "Does throughput still grow with the batch at the largest batch that fits into memory?"
source   = """Zhu et al. 2018, observation 2 (paraphrased from memory): elasticity e = Δlog
    throughput ÷ Δlog batch over the last doubling of the batch"""
grain    = "batch-size sweep: captures that differ only in batch size"
needs    = ["trace"]
optional = ["benchmark_run"]
[check]
rule = "OBS02"
scope = "sweep"
thresholds = "proposed"
advice = """memory limits throughput; reduced precision, recomputed activations or a GPU with more
    memory allow larger batches"""
collect = """captures of one model with batch sizes up to the memory limit, the last two a factor of
    two apart (tbd-trace collect MODEL --batch-size 8,16,32,64 -o DIR)"""
[params.min_elasticity]
doc = "elasticity from which throughput still grows with the batch"
default = 0.5
[params.saturated_elasticity]
doc = "elasticity up to which the GPU is saturated"
default = 0.1
[params.min_memory_pct]
doc = """minimum share of the GPU memory used by the largest batch, in percent; below it, larger
    batches would fit"""
default = 80.0
*/
WITH
setting AS (
    SELECT getvariable('min_elasticity')::DOUBLE AS min_elasticity,
        getvariable('saturated_elasticity')::DOUBLE AS saturated_elasticity,
        getvariable('min_memory_pct')::DOUBLE AS min_memory_pct
),
-- Merge repeated runs of a batch size.
run AS (
    SELECT workload, software, gpu, batch_size, any_value(sweep) AS sweep,
        any_value(evidence) AS evidence,
        median(samples_per_s) AS samples_per_s, max(peak_bytes) AS peak_bytes,
        min(memory_bytes) AS memory_bytes
    FROM benchmark_run GROUP BY workload, software, gpu, batch_size
),
last_run AS (
    SELECT * FROM run
    QUALIFY row_number() OVER (PARTITION BY workload, software, gpu ORDER BY batch_size DESC) = 1
),
-- The last doubling starts from the largest batch of at most half the largest.
doubled AS (
    SELECT l.*, h.batch_size AS half_batch,
        ln(l.samples_per_s / h.samples_per_s) / ln(l.batch_size / h.batch_size) AS elasticity,
        100.0 * l.peak_bytes / l.memory_bytes AS memory_pct
    FROM last_run l
    LEFT JOIN run h
        ON  h.workload = l.workload AND h.software IS NOT DISTINCT FROM l.software
        AND h.gpu IS NOT DISTINCT FROM l.gpu AND 2 * h.batch_size <= l.batch_size
    QUALIFY row_number() OVER (
        PARTITION BY l.workload, l.software, l.gpu ORDER BY h.batch_size DESC NULLS LAST) = 1
),
evaluated AS (
    SELECT *,
        CASE
            WHEN half_batch IS NULL
                THEN format(
                    '{}: no capture has at most half the largest batch, {}', sweep, batch_size)
            WHEN memory_pct IS NULL
                THEN sweep || ': the share of the GPU memory used by the largest batch is unknown'
            WHEN memory_pct < min_memory_pct THEN format(
                '{}: the largest batch, {}, takes {:.0f} % of the GPU memory; larger '
                    || 'batches would fit',
                sweep, batch_size, memory_pct)
        END AS why_not,
        format('{}: from batch {} to {}, throughput grows with elasticity {:.2f}, and the larger '
                || 'batch takes {:.0f} % of the GPU memory; {}',
            sweep, half_batch, batch_size, elasticity, memory_pct,
            CASE WHEN elasticity >= min_elasticity THEN 'more memory would increase throughput'
                 WHEN elasticity <= saturated_elasticity THEN 'the GPU is saturated'
                 ELSE 'the GPU is nearly saturated' END) AS grown
    FROM doubled CROSS JOIN setting
),
answer AS (
    SELECT
        CASE WHEN why_not IS NOT NULL THEN 'not evaluable'
             WHEN elasticity >= min_elasticity THEN 'finding' ELSE 'pass' END AS verdict,
        elasticity, min_elasticity, evidence, coalesce(why_not, grown) AS reason
    FROM evaluated
    UNION ALL
    SELECT 'not evaluable', NULL, min_elasticity, NULL,
        'no capture records its model, batch size and throughput'
    FROM setting WHERE NOT EXISTS (SELECT 1 FROM benchmark_run)
)
SELECT NULL::VARCHAR AS trace_id, verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN elasticity END AS value,
    min_elasticity AS threshold, NULL::VARCHAR AS unit,
    CASE WHEN verdict <> 'not evaluable' THEN evidence END AS evidence, reason,
    NULL::VARCHAR AS advice
FROM answer
ORDER BY trace_id, reason
