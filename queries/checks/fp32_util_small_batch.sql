/*
title    = "Arithmetic far below the peak"
question = "What share of the peak rate do kernels reach while they run?"
source   = """Zhu et al. 2018, observation 6 (paraphrased from memory): FLOP ÷ (peak × time), FLOP
    of tensor cores against the tensor peak"""
grain    = "trace: the device with the lowest value"
needs    = ["gpu_op"]
optional = ["training_window", "peak_utilization"]
reduce   = "concat"
[check]
rule = "OBS06"
scope = "trace"
thresholds = "proposed"
advice = """enlarge the batch, use reduced precision on tensor cores, or fuse kernels with little
    arithmetic; tbd-trace query low_util_kernels lists the kernels"""
collect = """a capture directory with layers.json, or FLOP counters in addition to the timeline
    (tbd-trace collect writes both)"""
[params.min_peak_pct]
doc = "minimum share of the peak that kernels reach while they run, in percent"
default = 30.0
*/
WITH
setting AS (SELECT getvariable('min_peak_pct')::DOUBLE AS min_peak_pct),
evaluated AS (
    SELECT w.trace_id, u.busy_pct, s.min_peak_pct, u.evidence, w.advice AS to_collect,
        coalesce(w.why_not, u.why_not,
            CASE WHEN u.trace_id IS NULL THEN 'the FLOP of the kernels are unknown' END) AS why_not,
        format('{} FLOP reached {:.1f} % of the peak of {} while a kernel ran',
            replace(u.precisions, '+', ' and '), u.busy_pct, w.label)
            || coalesce(format(' and {:.1f} % of it over {}', u.elapsed_pct, w.span), '') AS reason
    FROM training_window w
    CROSS JOIN setting s
    LEFT JOIN peak_utilization u USING (trace_id, process_id, device_id)
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN busy_pct < min_peak_pct THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN why_not IS NULL THEN busy_pct END AS value,
    min_peak_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN evidence END AS evidence, coalesce(why_not, reason) AS reason,
    CASE WHEN verdict = 'not evaluable' THEN to_collect END AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC, busy_pct,
        reason) = 1
ORDER BY trace_id
