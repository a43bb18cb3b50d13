/*
title    = "Recurrent layers leave the GPU idle"
question = "Do kernels keep the GPU busy in models dominated by recurrent layers?"
source   = "Zhu et al. 2018, observation 5 (paraphrased from memory)"
grain    = "trace: its least busy device with a recurrent model"
needs    = ["gpu_op"]
optional = ["training_window", "device_timeline", "rnn_time_share", "window_op"]
reduce   = "concat"
[check]
rule = "OBS05"
scope = "trace"
thresholds = "proposed"
advice = """use the framework's fused recurrent layer instead of a cell per time step, enlarge the
    batch, or replay the time steps as one graph"""
collect = """a timeline of training iterations of a recurrent model with marked layers (tbd-trace
    collect marks them)"""
[params.min_busy_pct]
doc = "minimum share of time with a running kernel, in percent"
default = 80.0
[params.min_recurrent_pct]
doc = "minimum share of recurrent layers in the kernel time for a model to be recurrent, in percent"
default = 50.0
*/
WITH
setting AS (
    SELECT getvariable('min_busy_pct')::DOUBLE AS min_busy_pct,
        getvariable('min_recurrent_pct')::DOUBLE AS min_recurrent_pct
),
busy AS (
    SELECT trace_id, process_id, device_id,
        100.0 * coalesce(sum(duration_ns) FILTER (kernel_active), 0) / sum(duration_ns) AS busy_pct
    FROM device_timeline GROUP BY ALL
),
operation AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        median(duration_ns) FILTER (op_kind = 'kernel') AS kernel_ns,
        bool_or(op_kind = 'graph') AS has_graph
    FROM window_op GROUP BY ALL
),
evaluated AS (
    SELECT w.trace_id, b.busy_pct, r.recurrent_pct, r.evidence, s.min_busy_pct,
        w.advice AS to_collect,
        CASE
            WHEN w.why_not IS NOT NULL THEN w.why_not
            WHEN o.has_graph THEN 'graphs were traced as a whole, so their kernels are unknown'
            WHEN r.has_persistent
                THEN 'persistent kernels run for many time steps, so the load of the SMs is unknown'
            WHEN r.recurrent_pct = 0
                THEN 'no layer or kernel is recurrent; the rule applies to recurrent models'
        END AS why_not,
        r.recurrent_pct >= s.min_recurrent_pct AND b.busy_pct < s.min_busy_pct AS is_found,
        format('{} ran kernels for {:.1f} % of {}; recurrent layers take {:.1f} % of the kernel '
                || 'time, and the median kernel takes {:.1f} µs',
            w.label, b.busy_pct, w.span, r.recurrent_pct, o.kernel_ns / 1000) AS reason
    FROM training_window w
    CROSS JOIN setting s
    JOIN busy b USING (trace_id, process_id, device_id)
    JOIN operation o USING (trace_id, process_id, device_id)
    JOIN rnn_time_share r USING (trace_id, process_id, device_id)
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN is_found THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN why_not IS NULL THEN busy_pct END AS value,
    min_busy_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN evidence END AS evidence, coalesce(why_not, reason) AS reason,
    CASE WHEN verdict = 'not evaluable' THEN to_collect END AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC,
        recurrent_pct DESC, busy_pct, reason) = 1
ORDER BY trace_id
