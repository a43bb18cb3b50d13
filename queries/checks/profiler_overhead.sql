/*
title    = "Profiler overhead"
question = "How much longer do iterations take with the profiler than without?"
source   = """median iteration with ÷ without the profiler (capture.json), or else throughput
    without ÷ with"""
grain    = "trace"
needs    = ["trace"]
optional = ["iteration_rate"]
reduce   = "concat"
[check]
rule = "ROB03"
scope = "trace"
thresholds = "proposed"
advice = """take shares of time from this trace and throughput from the unprofiled run; trace less
    to reduce the overhead (fewer APIs, no CPU samples, fewer ranges)"""
collect = """an unprofiled run in addition to the timeline, in a capture directory (tbd-trace
    collect writes both)"""
[params.max_slowdown_pct]
doc = "maximum slowdown by the profiler, in percent"
default = 5.0
*/
WITH
setting AS (SELECT getvariable('max_slowdown_pct')::DOUBLE AS max_slowdown_pct),
rate AS (
    SELECT trace_id, sum(iterations_per_s ORDER BY process_id) AS iterations_per_s
    FROM iteration_rate GROUP BY trace_id
),
slowed AS (
    SELECT t.trace_id,
        -- Rounded, because 1.05 - 1 exceeds 0.05 in floating point.
        round(100 * (try_cast(t.capture ->> '$.profiler_slowdown' AS DOUBLE) - 1), 9)
            AS recorded_pct,
        round(100 * (try_cast(t.capture ->> '$.throughput.samples_per_second' AS DOUBLE)
            / (t.batch_size * r.iterations_per_s) - 1), 9) AS measured_pct,
        coalesce(recorded_pct, measured_pct) AS slowdown_pct,
        t.kind
    FROM trace t LEFT JOIN rate r USING (trace_id)
)
SELECT trace_id,
    CASE WHEN slowdown_pct IS NULL OR kind <> 'timeline' THEN 'not evaluable'
         WHEN slowdown_pct > max_slowdown_pct THEN 'finding' ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN verdict <> 'not evaluable' THEN slowdown_pct END AS value,
    max_slowdown_pct AS threshold, '%' AS unit,
    CASE WHEN verdict = 'not evaluable' THEN NULL WHEN recorded_pct IS NOT NULL THEN 'capture.json'
         ELSE 'timeline' END AS evidence,
    CASE
        WHEN verdict = 'not evaluable'
            THEN 'the capture has no unprofiled run, or the trace has no iterations to compare'
        WHEN recorded_pct IS NOT NULL THEN format(
            'iterations took {:.1f} % longer with the profiler, by the clock of the program',
            slowdown_pct)
        ELSE format('throughput is {:.1f} % higher without the profiler', slowdown_pct)
    END AS reason,
    NULL::VARCHAR AS advice
FROM slowed CROSS JOIN setting
ORDER BY trace_id
