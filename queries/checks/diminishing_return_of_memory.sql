/*
title    = "Small return on memory"
question = "Does the last doubling of the batch gain enough throughput for the memory it takes?"
source   = """Zhu et al. 2018, observation 12 (paraphrased from memory): relative gain of throughput
    ÷ relative growth of allocated memory"""
grain    = "batch-size sweep: captures that differ only in batch size"
needs    = ["trace"]
optional = ["benchmark_run"]
[check]
rule = "OBS12"
scope = "sweep"
thresholds = "proposed"
advice = """train with the smaller batch and use the memory for a larger model, for the workspaces
    of faster algorithms, or to recompute less"""
collect = """captures of one model on one GPU, with batch sizes a factor of two apart (tbd-trace
    collect MODEL --batch-size 16,32,64 -o DIR)"""
[params.min_gain]
doc = "minimum relative gain of throughput ÷ relative growth of memory"
default = 0.1
*/
WITH
setting AS (SELECT getvariable('min_gain')::DOUBLE AS min_gain),
-- Merge repeated runs of a batch size.
run AS (
    SELECT workload, software, gpu, batch_size, any_value(sweep) AS sweep,
        any_value(evidence) AS evidence,
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
evaluated AS (
    SELECT *,
        CASE
            WHEN half_batch IS NULL
                THEN format(
                    '{}: no capture has at most half the largest batch, {}', sweep, batch_size)
            WHEN more_bytes IS NULL THEN sweep || ': the memory of the tensors was not recorded'
            WHEN more_bytes <= 0 THEN format(
                '{}: batch {} takes no more memory than batch {}', sweep, batch_size, half_batch)
        END AS why_not,
        -- 1073741824 bytes are 1 GiB.
        format('{}: from batch {} to {}, throughput changes by {:+.1f} % for {:.2f} GiB more '
                || 'memory (relative gain ÷ relative growth of memory: {:.2f})',
            sweep, half_batch, batch_size, gain_pct, more_bytes / 1073741824, gain) AS gained
    FROM doubled
),
answer AS (
    SELECT
        CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN gain < min_gain THEN 'finding'
             ELSE 'pass' END AS verdict,
        gain, min_gain, evidence, coalesce(why_not, gained) AS reason
    FROM evaluated CROSS JOIN setting
    UNION ALL
    SELECT 'not evaluable', NULL, min_gain, NULL,
        'no capture records its model, batch size and throughput'
    FROM setting WHERE NOT EXISTS (SELECT 1 FROM benchmark_run)
)
SELECT NULL::VARCHAR AS trace_id, verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN gain END AS value,
    min_gain AS threshold, NULL::VARCHAR AS unit,
    CASE WHEN verdict <> 'not evaluable' THEN evidence END AS evidence, reason,
    NULL::VARCHAR AS advice
FROM answer
ORDER BY trace_id, reason
