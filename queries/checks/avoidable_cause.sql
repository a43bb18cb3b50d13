/*
title    = "Avoidable cause of slow steps"
question = "Does a cause other than the GPU's kernels take a large share of the steps?"
source   = """tbd-trace why: disjoint shares of the steps of the analysis window, and gains by
    replay; warm-up does not count, because a long run does not repeat it"""
grain    = "trace: its process with the longest steps"
needs    = ["kernel", "step_cause"]
reduce   = "concat"
together = "job"
[check]
rule = "ADV01"
scope = "trace"
thresholds = "proposed"
advice = """tbd-trace why --all lists the causes with their evidence, and tbd-trace whatif predicts
    gains"""
collect = "a complete step ({steps}), and the launching calls ({launches})"
[params.min_cause_pct]
doc = "minimum share of a cause, in percent of the elapsed time"
default = 20.0
[params.severe_cause_pct]
doc = "share of a cause, in percent of the elapsed time, from which it is severe"
default = 50.0
*/
WITH
setting AS (
    SELECT getvariable('min_cause_pct')::DOUBLE AS min_cause_pct,
        getvariable('severe_cause_pct')::DOUBLE AS severe_cause_pct
),
process AS (
    SELECT trace_id, process_id, coalesce(any_value(step_ns), any_value(elapsed_ns)) AS slow_ns
    FROM step_cause GROUP BY trace_id, process_id
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY slow_ns DESC, process_id) = 1
),
cause AS (
    SELECT c.*, c.cause NOT LIKE 'gpu!_%' ESCAPE '!' AND c.cause <> 'warm_up' AS is_avoidable
    FROM step_cause c SEMI JOIN process p USING (trace_id, process_id)
),
top AS (
    SELECT trace_id, any_value(steps) AS steps, any_value(trains) AS trains,
        any_value(replay_error_pct) AS replay_error_pct, any_value(not_known) AS not_known,
        arg_max(title, share_pct) FILTER (is_avoidable) AS title,
        arg_max(evidence, share_pct) FILTER (is_avoidable) AS evidence,
        coalesce(max(share_pct) FILTER (is_avoidable), 0) AS share_pct,
        coalesce(bool_or(cause = 'unknown' AND share_pct >= min_cause_pct), false) AS is_unknown,
        any_value(title) FILTER (is_change) AS change_title,
        any_value(advice) FILTER (is_change) AS change_advice,
        any_value(judged_step_ns / likely_step_ns) FILTER (is_change) AS gain
    FROM cause CROSS JOIN setting
    GROUP BY trace_id
),
evaluated AS (
    SELECT t.*, s.*,
        CASE WHEN replay_error_pct IS NULL OR is_unknown
             THEN coalesce(not_known[1], 'the replay has no answer') END AS why_not,
        CASE WHEN why_not IS NULL AND share_pct >= min_cause_pct
             THEN CASE WHEN NOT trains THEN 'note'
                       WHEN share_pct >= severe_cause_pct THEN 'severe'
                       ELSE 'warning' END END AS level,
        format('{}: {:.1f} % of {} step{}; {}', title, share_pct, steps,
               if(steps = 1, '', 's'), evidence)
            || coalesce(format('; the change that gains most is about {}: steps likely {:.2f} '
                || 'times as fast', change_title, gain), '') AS sentence
    FROM top t CROSS JOIN setting s
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN level IS NOT NULL THEN 'finding'
         ELSE 'pass' END AS verdict,
    level AS severity,
    CASE WHEN why_not IS NULL THEN share_pct END AS value,
    CASE WHEN level = 'severe' THEN severe_cause_pct ELSE min_cause_pct END AS threshold,
    '%' AS unit,
    CASE WHEN why_not IS NULL THEN 'replay' END AS evidence,
    coalesce(why_not, sentence, 'only kernels of the GPU and warm-up take time') AS reason,
    CASE WHEN level IS NOT NULL THEN change_advice END AS advice
FROM evaluated
ORDER BY trace_id
