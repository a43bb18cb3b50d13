/*
title    = "Exposed communication"
question = """For what share of the measured iterations, or of the whole trace, does the GPU only
    communicate?"""
source   = """disjoint parts of the timeline (step_breakdown): time with communication kernels and
    without other kernels"""
grain    = "trace: the device with the largest share"
needs    = ["gpu_op"]
optional = ["training_window", "device_timeline", "window_op", "matched_collective"]
[check]
rule = "COM01"
scope = "trace"
thresholds = "proposed"
advice = """overlap communication with the backward pass (smaller or earlier buckets, no
    synchronisation before it), communicate less (reduced precision, gradient accumulation), or use
    a faster link; part of the time may be spent waiting for slower processes (tbd-trace query
    straggler)"""
collect = "a timeline of a program that uses several GPUs"
[params.max_exposed_pct]
doc = "maximum share of time in which the GPU only communicates, in percent"
default = 20.0
*/
WITH
setting AS (SELECT getvariable('max_exposed_pct')::DOUBLE AS max_exposed_pct),
share AS (
    SELECT trace_id, process_id, device_id,
        100.0 * coalesce(sum(duration_ns) FILTER (activity = 'communication'), 0)
            / sum(duration_ns) AS exposed_pct,
        100.0 * coalesce(sum(duration_ns) FILTER (communication_active), 0)
            / sum(duration_ns) AS communication_pct
    FROM device_timeline GROUP BY ALL
),
graphed AS (
    SELECT DISTINCT trace_id, coalesce(process_id, -1) AS process_id,
        coalesce(device_id, -1) AS device_id
    FROM window_op WHERE op_kind = 'graph'
),
-- In a job of several ranks.
waited AS (
    SELECT trace_id, 100.0 * sum(wait_ns) / nullif(sum(end_ns - start_ns), 0) AS wait_pct
    FROM matched_collective
    WHERE is_synchronizing AND start_skew_ns > uncertainty_ns GROUP BY trace_id
),
evaluated AS (
    SELECT w.trace_id, w.label, s.max_exposed_pct, c.exposed_pct, w.trains,
        CASE
            WHEN g.trace_id IS NOT NULL
                THEN 'graphs were traced as a whole, so their kernels are unknown'
            WHEN c.communication_pct = 0
                THEN 'no communication kernel runs; the rule applies to work on several GPUs'
        END AS why_not,
        format('{} only communicates for {:.1f} % of {}; {:.1f} % of its communication is hidden '
                || 'by other kernels',
            w.label, c.exposed_pct, w.span,
            100 * (1 - c.exposed_pct / nullif(c.communication_pct, 0)))
        || coalesce(format('; in matched collectives, {:.0f} % of the time is wait for other ranks',
            o.wait_pct), '') AS reason
    FROM training_window w
    CROSS JOIN setting s
    JOIN share c USING (trace_id, process_id, device_id)
    LEFT JOIN graphed g USING (trace_id, process_id, device_id)
    LEFT JOIN waited o USING (trace_id)
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable'
         WHEN exposed_pct > max_exposed_pct THEN 'finding' ELSE 'pass' END AS verdict,
    -- Exposed communication is a problem of training; other programs may consist of it.
    CASE WHEN verdict = 'finding'
         THEN CASE WHEN trains THEN 'warning' ELSE 'note' END END AS severity,
    CASE WHEN why_not IS NULL THEN exposed_pct END AS value,
    max_exposed_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN 'kernel name' END AS evidence,
    coalesce(why_not, reason) AS reason, NULL::VARCHAR AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC, exposed_pct DESC,
        label) = 1
ORDER BY trace_id
