/*
title    = "Faster GPU with lower efficiency"
question = "Does throughput grow with the peak of the GPU?"
source   = """Zhu et al. 2018, observation 10 (paraphrased from memory): efficiency = ratio of
    throughputs ÷ ratio of peaks"""
grain    = "workload and batch size on two GPUs"
needs    = ["trace"]
optional = ["benchmark_run"]
[check]
rule = "OBS10"
scope = "cross-run"
thresholds = "proposed"
advice = """the faster GPU waits, or runs kernels that are not limited by peak arithmetic; enlarge
    the batch, and compare tbd-trace query compute_util and idle_causes on both GPUs"""
collect = """captures of one model on two GPUs, with the same batch size, precision and framework
    version"""
[params.min_efficiency]
doc = "minimum ratio of throughputs ÷ ratio of peaks"
default = 0.8
*/
WITH
setting AS (SELECT getvariable('min_efficiency')::DOUBLE AS min_efficiency),
pair AS (
    SELECT slow.sweep, slow.model, slow.framework, slow.batch_size, slow.precision, slow.evidence,
        slow.gpu AS slow_gpu, fast.gpu AS fast_gpu,
        slow.software AS slow_software, fast.software AS fast_software,
        fast.samples_per_s / slow.samples_per_s AS speedup,
        fast.peak_flops / slow.peak_flops AS peak_ratio, speedup / peak_ratio AS efficiency,
        slow.capture AS slow_capture, fast.capture AS fast_capture
    FROM benchmark_run slow
    JOIN benchmark_run fast
        ON  fast.workload = slow.workload AND fast.framework = slow.framework
        AND fast.batch_size = slow.batch_size AND fast.gpu <> slow.gpu
    WHERE fast.peak_flops > slow.peak_flops
       -- Without peaks the faster GPU is unknown: keep one row per pair to report that.
       OR (fast.peak_flops IS NULL OR slow.peak_flops IS NULL) AND fast.gpu > slow.gpu
),
evaluated AS (
    SELECT *,
        format('{}, {}, batch {}: ', model, framework, batch_size) AS what,
        CASE
            WHEN peak_ratio IS NULL THEN format(
                'the peak of {} or {} for {} is unknown', slow_gpu, fast_gpu,
                coalesce(precision, 'an unknown precision'))
            -- Another framework version would explain a difference as well as the GPU.
            WHEN slow_software IS NULL OR slow_software IS DISTINCT FROM fast_software THEN format(
                'the software differs: {} on {}, {} on {}',
                coalesce(slow_software, 'unknown'), slow_gpu,
                coalesce(fast_software, 'unknown'), fast_gpu)
        END AS why_not
    FROM pair
),
answer AS (
    SELECT
        CASE WHEN why_not IS NOT NULL THEN 'not evaluable'
             WHEN efficiency < min_efficiency THEN 'finding' ELSE 'pass' END AS verdict,
        efficiency, min_efficiency, evidence,
        what || coalesce(why_not, format(
            '{} has {:.2f} times the peak of {} and trains {:.2f} times as fast: efficiency {:.2f}',
            fast_gpu, peak_ratio, slow_gpu, speedup, efficiency)) AS reason
    FROM evaluated CROSS JOIN setting
    UNION ALL
    SELECT 'not evaluable', NULL, min_efficiency, NULL,
        'no workload was captured on two GPUs with the same batch size'
    FROM setting WHERE NOT EXISTS (SELECT 1 FROM pair)
)
SELECT NULL::VARCHAR AS trace_id, verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN efficiency END AS value,
    min_efficiency AS threshold, NULL::VARCHAR AS unit,
    CASE WHEN verdict <> 'not evaluable' THEN evidence END AS evidence, reason,
    NULL::VARCHAR AS advice
FROM answer
ORDER BY trace_id, reason
