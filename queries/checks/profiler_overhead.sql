/*
title    = "Slowed down by the profiler"
question = "How much longer do iterations take under the profiler than without?"
source   = "median iteration under the profiler ÷ without (capture.json), or else throughput without ÷ with"
grain    = "trace"
needs    = ["trace"]
optional = ["iteration_rate"]
[check]
rule = "ROB03"
scope = "trace"
thresholds = "proposed"
advice = "take shares of the time from this trace, and throughput from the run without a profiler; trace less to disturb less (fewer APIs, no CPU samples, fewer NVTX ranges)"
collect = "a run without the profiler beside the timeline, in a capture directory (tbd-trace collect makes both)"
[params.max_slowdown_pct]
doc = "largest slowdown by the profiler, in percent"
default = 5.0
*/
WITH
setting AS (SELECT coalesce(getvariable('max_slowdown_pct'), 5.0)::DOUBLE AS max_slowdown_pct),
rate AS (
    SELECT trace_id, sum(iterations_per_s ORDER BY process_id) AS iterations_per_s
    FROM iteration_rate GROUP BY trace_id
),
slowed AS (
    SELECT t.trace_id,
        -- rounded: 1.05 is 5 %, and not a trace more
        round(100 * (try_cast(t.capture ->> '$.profiler_slowdown' AS DOUBLE) - 1), 9) AS told_pct,
        round(100 * (try_cast(t.capture ->> '$.throughput.samples_per_second' AS DOUBLE)
            / (t.batch_size * r.iterations_per_s) - 1), 9) AS measured_pct,
        coalesce(told_pct, measured_pct) AS slowdown_pct,
        t.kind
    FROM trace t LEFT JOIN rate r USING (trace_id)
)
SELECT trace_id,
    CASE WHEN slowdown_pct IS NULL OR kind <> 'timeline' THEN 'not evaluable'
         WHEN slowdown_pct > max_slowdown_pct THEN 'finding' ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN slowdown_pct END AS value,
    max_slowdown_pct AS threshold, '%' AS unit,
    CASE WHEN verdict = 'not evaluable' THEN NULL WHEN told_pct IS NOT NULL THEN 'capture.json' ELSE 'timeline' END AS evidence,
    CASE
        WHEN verdict = 'not evaluable' THEN 'no run without a profiler is known, or the trace has no iterations to compare with it'
        WHEN told_pct IS NOT NULL
            THEN format('by their own clock, iterations took {:.1f} % longer under the profiler', slowdown_pct)
        ELSE format('throughput without the profiler is {:.1f} % above that of the trace', slowdown_pct)
    END AS reason,
    NULL::VARCHAR AS advice
FROM slowed CROSS JOIN setting
ORDER BY trace_id
