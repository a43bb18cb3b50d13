/*
title    = "The last gigabytes gain little"
question = "Does the memory of the last doubling of the batch pay in throughput?"
source   = "Zhu et al. 2018, observation 12 (paraphrased from memory): relative gain of throughput ÷ relative growth of allocated memory"
grain    = "batch-size sweep: captures alike but for the batch size"
needs    = ["trace"]
optional = ["benchmark_run"]
[check]
rule = "OBS12"
scope = "sweep"
thresholds = "proposed"
advice = "train with the smaller batch and use the memory for something else: a larger model, workspaces of faster algorithms, less recomputation"
collect = "captures of one model on a GPU with batch sizes a factor of two apart (tbd-trace collect MODEL --batch-size 16,32,64 -o DIR)"
[params.min_gain]
doc = "relative gain of throughput per relative growth of memory should be at least this"
default = 0.1
*/
WITH
setting AS (SELECT coalesce(getvariable('min_gain'), 0.1)::DOUBLE AS min_gain),
-- Repeated runs of a batch count as one.
run AS (
    SELECT workload, software, gpu, batch_size, any_value(sweep) AS sweep, any_value(evidence) AS evidence,
        median(samples_per_s) AS samples_per_s, max(peak_bytes) AS peak_bytes
    FROM benchmark_run GROUP BY workload, software, gpu, batch_size
),
last_run AS (
    SELECT * FROM run
    QUALIFY row_number() OVER (PARTITION BY workload, software, gpu ORDER BY batch_size DESC) = 1
),
doubled AS (
    SELECT l.*, h.batch_size AS half_batch, l.peak_bytes - h.peak_bytes AS more_bytes,
        100.0 * (l.samples_per_s / h.samples_per_s - 1) AS gain_pct,
        (l.samples_per_s / h.samples_per_s - 1) / nullif(l.peak_bytes / h.peak_bytes - 1, 0) AS gain
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
            WHEN more_bytes IS NULL THEN sweep || ': how much memory tensors took was not recorded'
            WHEN more_bytes <= 0 THEN format('{}: batch {} takes no more memory than {}', sweep, batch_size, half_batch)
        END AS why_not,
        format('{}: from batch {} to {}, {:.2f} GiB more bring {:.1f} % more throughput: {:.2f} per relative growth of memory',
            sweep, half_batch, batch_size, more_bytes / 1073741824, gain_pct, gain) AS gained
    FROM doubled
),
told AS (
    SELECT
        CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN gain < min_gain THEN 'finding' ELSE 'pass' END AS verdict,
        gain, min_gain, evidence, coalesce(why_not, gained) AS reason
    FROM judged CROSS JOIN setting
    UNION ALL
    SELECT 'not evaluable', NULL, min_gain, NULL, 'no capture tells its model, batch size and throughput'
    FROM setting WHERE NOT EXISTS (SELECT 1 FROM benchmark_run)
)
SELECT NULL::VARCHAR AS trace_id, verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN gain END AS value,
    min_gain AS threshold, NULL::VARCHAR AS unit,
    CASE WHEN verdict <> 'not evaluable' THEN evidence END AS evidence, reason, NULL::VARCHAR AS advice
FROM told
ORDER BY trace_id, reason
