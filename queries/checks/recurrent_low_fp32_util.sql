/*
title    = "Recurrent models reach less of the peak"
question = "Do recurrent models reach a smaller share of the peak than convolutional models?"
source   = "Zhu et al. 2018, observation 7 (paraphrased from memory: a factor of two to three)"
grain    = "a convolutional and a recurrent model on one GPU"
needs    = ["trace"]
optional = ["training_window", "peak_utilization", "rnn_time_share", "benchmark_run"]
[check]
rule = "OBS07"
scope = "cross-run"
thresholds = "recalled"
advice = """use the framework's fused recurrent layer, enlarge the batch of the recurrent model, or
    batch the matrix products of its time steps"""
collect = """captures of a convolutional and a recurrent model on one GPU, with batch sizes within a
    factor of two and known FLOP (tbd-trace collect)"""
[params.max_peak_ratio]
doc = """share of the peak of the convolutional ÷ the recurrent model from which the rule reports a
    finding"""
default = 2.0
[params.max_batch_ratio]
doc = "maximum ratio of batch sizes for two models to be compared"
default = 2.0
[params.min_recurrent_pct]
doc = "minimum share of recurrent layers in the kernel time for a model to be recurrent, in percent"
default = 50.0
*/
WITH
setting AS (
    SELECT getvariable('max_peak_ratio')::DOUBLE AS max_peak_ratio,
        getvariable('max_batch_ratio')::DOUBLE AS max_batch_ratio,
        getvariable('min_recurrent_pct')::DOUBLE AS min_recurrent_pct
),
run AS (
    SELECT m.trace_id, m.capture, m.gpu, m.precision, m.batch_size, u.evidence,
        avg(u.busy_pct) AS peak_pct,
        -- A model with both kinds of layers has one kind only if all its devices agree.
        CASE WHEN bool_and(s.recurrent_pct >= c.min_recurrent_pct) THEN 'recurrent'
             WHEN bool_and(s.convolution_pct >= 50) THEN 'convolutional' END AS kind
    FROM benchmark_run m
    CROSS JOIN setting c
    JOIN training_window w ON w.trace_id = m.trace_id AND w.why_not IS NULL
    JOIN peak_utilization u
        ON  u.trace_id = w.trace_id AND u.process_id = w.process_id
        AND u.device_id = w.device_id
    JOIN rnn_time_share s
        ON  s.trace_id = w.trace_id AND s.process_id = w.process_id
        AND s.device_id = w.device_id
    WHERE u.busy_pct > 0
    GROUP BY ALL
),
pair AS (
    SELECT c.capture AS convolutional, r.capture AS recurrent, c.gpu, c.evidence,
        c.peak_pct AS convolutional_pct, r.peak_pct AS recurrent_pct,
        c.peak_pct / r.peak_pct AS ratio,
        c.batch_size AS convolutional_batch, r.batch_size AS recurrent_batch,
        greatest(c.batch_size, r.batch_size) / least(c.batch_size, r.batch_size) AS batch_ratio
    FROM run c
    JOIN run r
        ON  r.gpu = c.gpu AND r.precision IS NOT DISTINCT FROM c.precision
        AND r.evidence = c.evidence
    WHERE c.kind = 'convolutional' AND r.kind = 'recurrent'
),
answer AS (
    SELECT
        -- A small batch alone lowers the share of the peak.
        CASE WHEN batch_ratio > max_batch_ratio THEN 'not evaluable'
             WHEN ratio >= max_peak_ratio THEN 'finding' ELSE 'pass' END AS verdict,
        ratio, max_peak_ratio, evidence,
        CASE WHEN batch_ratio > max_batch_ratio
            THEN format('the batch sizes of {} ({}) and {} ({}) differ by more than a factor of {}',
                convolutional, convolutional_batch, recurrent, recurrent_batch, max_batch_ratio)
            ELSE format(
                'on {}, {} reaches {:.1f} % of the peak while kernels run, and {} {:.1f} %: a '
                    || 'ratio of {:.1f}',
                gpu, convolutional, convolutional_pct, recurrent, recurrent_pct, ratio)
        END AS reason
    FROM pair CROSS JOIN setting
    UNION ALL
    SELECT 'not evaluable', NULL, max_peak_ratio, NULL,
        'no convolutional and recurrent model with known FLOP were captured on one GPU '
            || 'in one precision'
    FROM setting WHERE NOT EXISTS (SELECT 1 FROM pair)
)
SELECT NULL::VARCHAR AS trace_id, verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN ratio END AS value,
    max_peak_ratio AS threshold, NULL::VARCHAR AS unit,
    CASE WHEN verdict <> 'not evaluable' THEN evidence END AS evidence, reason,
    NULL::VARCHAR AS advice
FROM answer
ORDER BY trace_id, reason
