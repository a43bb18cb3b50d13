/*
title    = "Memory runs out before the GPU is used up"
question = "At the largest batch that fits, would throughput still grow with the batch?"
source   = "Zhu et al. 2018, observation 2 (paraphrased from memory): elasticity e = Δlog throughput ÷ Δlog batch over the last doubling of the batch"
grain    = "batch-size sweep: captures alike but for the batch size"
needs    = ["trace"]
optional = ["benchmark_run"]
[check]
rule = "OBS02"
scope = "sweep"
thresholds = "proposed"
advice = "memory holds throughput back: reduced precision, recomputed activations or a GPU with more memory would allow larger batches"
collect = "captures of one model with batch sizes up to what fits into memory, the last two a factor of two apart (tbd-trace collect MODEL --batch-size 8,16,32,64 -o DIR)"
[params.min_elasticity]
doc = "from this elasticity on, throughput still grows with the batch"
default = 0.5
[params.saturated_elasticity]
doc = "up to this elasticity, the GPU is used up"
default = 0.1
[params.min_memory_pct]
doc = "the largest batch must take this share of the GPU's memory, in percent, or the sweep ended early"
default = 80.0
*/
WITH
setting AS (
    SELECT coalesce(getvariable('min_elasticity'), 0.5)::DOUBLE AS min_elasticity,
        coalesce(getvariable('saturated_elasticity'), 0.1)::DOUBLE AS saturated_elasticity,
        coalesce(getvariable('min_memory_pct'), 80.0)::DOUBLE AS min_memory_pct
),
-- Repeated runs of a batch count as one.
run AS (
    SELECT workload, software, gpu, batch_size, any_value(sweep) AS sweep, any_value(evidence) AS evidence,
        median(samples_per_s) AS samples_per_s, max(peak_bytes) AS peak_bytes,
        min(memory_bytes) AS memory_bytes
    FROM benchmark_run GROUP BY workload, software, gpu, batch_size
),
last_run AS (
    SELECT * FROM run
    QUALIFY row_number() OVER (PARTITION BY workload, software, gpu ORDER BY batch_size DESC) = 1
),
-- The last doubling begins at the largest batch of at most half the last.
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
judged AS (
    SELECT *,
        CASE
            WHEN half_batch IS NULL THEN format('{}: no batch of at most half the largest, {}', sweep, batch_size)
            WHEN memory_pct IS NULL THEN sweep || ': how much of the GPU''s memory the largest batch takes is not known'
            WHEN memory_pct < min_memory_pct THEN format(
                '{}: the largest batch, {}, takes {:.0f} % of the memory: larger ones would fit', sweep, batch_size, memory_pct)
        END AS why_not,
        format('{}: from batch {} to {}, which takes {:.0f} % of the memory, throughput grows with elasticity {:.2f}: {}',
            sweep, half_batch, batch_size, memory_pct, elasticity,
            CASE WHEN elasticity >= min_elasticity THEN 'more memory would speed training up'
                 WHEN elasticity <= saturated_elasticity THEN 'the GPU is used up'
                 ELSE 'the GPU is nearly used up' END) AS grown
    FROM doubled CROSS JOIN setting
),
told AS (
    SELECT
        CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN elasticity >= min_elasticity THEN 'finding'
             ELSE 'pass' END AS verdict,
        elasticity, min_elasticity, evidence, coalesce(why_not, grown) AS reason
    FROM judged
    UNION ALL
    SELECT 'not evaluable', NULL, min_elasticity, NULL, 'no capture tells its model, batch size and throughput'
    FROM setting WHERE NOT EXISTS (SELECT 1 FROM benchmark_run)
)
SELECT NULL::VARCHAR AS trace_id, verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN elasticity END AS value,
    min_elasticity AS threshold, NULL::VARCHAR AS unit,
    CASE WHEN verdict <> 'not evaluable' THEN evidence END AS evidence, reason, NULL::VARCHAR AS advice
FROM told
ORDER BY trace_id, reason
