/*
title    = "Fastest framework depends on the model"
question = "Does the ranking of two frameworks depend on the model?"
source   = """Zhu et al. 2018, observation 3 (paraphrased from memory): two models for which the
    throughput difference of two frameworks has opposite signs"""
grain    = "two frameworks on one GPU"
needs    = ["trace"]
optional = ["benchmark_run"]
[check]
rule = "OBS03"
scope = "cross-run"
thresholds = "proposed"
advice = "choose the framework for each model; tbd-trace query suite_compare shows the differences"
collect = """captures of two or more models, each in two frameworks, with the same GPU, batch size,
    precision, data set and batch definition"""
*/
WITH
-- Pairs of frameworks per model, batch size and GPU; better is 0 if their intervals overlap.
pair AS (
    SELECT a.model, a.batch_size, a.gpu, a.precision, a.framework AS one, b.framework AS two,
        a.evidence, a.samples_per_s AS rate_of_one, b.samples_per_s AS rate_of_two,
        CASE WHEN a.low_samples_per_s > b.high_samples_per_s THEN 1
             WHEN a.high_samples_per_s < b.low_samples_per_s THEN -1 ELSE 0 END AS better
    FROM benchmark_run a
    JOIN benchmark_run b
        ON  b.workload = a.workload AND b.gpu IS NOT DISTINCT FROM a.gpu
        AND b.batch_size = a.batch_size AND b.framework > a.framework
),
compared AS (
    SELECT one, two, gpu, any_value(evidence) AS evidence,
        count(DISTINCT model) FILTER (better <> 0) AS models,
        count(*) FILTER (better = 0) AS unsure,
        count(DISTINCT model) FILTER (better = 1) AS of_one,
        count(DISTINCT model) FILTER (better = -1) AS of_two,
        first(
            format('{} at batch {} ({:.4g} against {:.4g} samples/s)',
                model, batch_size, rate_of_one, rate_of_two)
            ORDER BY model, batch_size) FILTER (better = 1) AS best_of_one,
        first(
            format('{} at batch {} ({:.4g} against {:.4g} samples/s)',
                model, batch_size, rate_of_two, rate_of_one)
            ORDER BY model, batch_size) FILTER (better = -1) AS best_of_two,
        -- The ranking for one model may change with the batch; a flip needs two models.
        count(DISTINCT model) FILTER (better <> 0) > 1 AND of_one > 0 AND of_two > 0 AS is_flipped
    FROM pair GROUP BY one, two, gpu
),
answer AS (
    SELECT
        CASE WHEN models < 2 THEN 'not evaluable' WHEN is_flipped THEN 'finding'
             ELSE 'pass' END AS verdict,
        least(of_one, of_two) AS flips, evidence,
        concat_ws(' on ', one || ' and ' || two, gpu) || ': '
            || CASE
                WHEN models < 2 THEN format(
                    '{} of 2 required models with throughput intervals that do not overlap', models)
                WHEN is_flipped THEN format(
                    '{} is faster for {}, {} for {}', one, best_of_one, two, best_of_two)
                ELSE format(
                    '{} is faster for all {} models with throughput intervals that do not overlap',
                    CASE WHEN of_one > 0 THEN one ELSE two END, models)
            END AS reason
    FROM compared
    UNION ALL
    SELECT 'not evaluable', NULL, NULL,
        'no model was captured in two frameworks with the same GPU, batch size, precision, '
            || 'data set and batch definition'
    WHERE NOT EXISTS (SELECT 1 FROM pair)
)
SELECT NULL::VARCHAR AS trace_id, verdict,
    CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN flips END::DOUBLE AS value,
    0::DOUBLE AS threshold, 'model' AS unit,
    CASE WHEN verdict <> 'not evaluable' THEN evidence END AS evidence, reason,
    NULL::VARCHAR AS advice
FROM answer
ORDER BY trace_id, reason
