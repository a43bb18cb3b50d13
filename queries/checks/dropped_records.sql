/*
title    = "Dropped records"
question = "Did the profiler lose records?"
source   = "warnings of the profiler, stored in the notes of the trace"
grain    = "trace"
needs    = ["trace"]
reduce   = "concat"
[check]
rule = "ROB04"
scope = "trace"
thresholds = "proposed"
advice = """profile for a shorter time or trace fewer APIs, so that the buffers of the profiler
    suffice; the lost records are missing from all metrics"""
collect = "a timeline of the whole recording instead of a slice"
[params.max_dropped]
doc = "maximum allowed lost-record warnings"
default = 0
*/
WITH
setting AS (SELECT getvariable('max_dropped')::BIGINT AS max_dropped),
noted AS (
    SELECT trace_id, tool, kind,
        list_filter(
            notes, lambda note: regexp_matches(note, '(?i)^nsys: .*(dropp|\blost\b|overflow)')
        ) AS lost,
        -- Kernels without a launching call may be lost records, even without a warning.
        list_filter(notes, lambda note: contains(note, 'have no launching call')) AS unlaunched
    FROM trace
),
evaluated AS (
    SELECT *, coalesce(len(lost), 0) AS warnings,
        CASE
            WHEN kind <> 'timeline' THEN format('a {} file is not a recording of events', kind)
            WHEN tool <> 'nsys' THEN tool || ' does not store lost-record warnings in the file'
            WHEN coalesce(len(lost), 0) = 0 AND len(unlaunched) > 0 THEN unlaunched[1]
        END AS why_not
    FROM noted
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN warnings > max_dropped THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'severe' END AS severity,
    CASE WHEN why_not IS NULL THEN warnings END::DOUBLE AS value, max_dropped::DOUBLE AS threshold,
    'warning' AS unit, CASE WHEN why_not IS NULL THEN 'profiler' END AS evidence,
    CASE
        WHEN why_not IS NOT NULL THEN why_not
        WHEN warnings > 0 THEN warnings
            || CASE WHEN warnings = 1 THEN ' lost-record warning: '
                ELSE ' lost-record warnings: ' END
            || array_to_string(lost[:3], '; ')
            || CASE WHEN warnings > 3 THEN format('; and {} more', warnings - 3) ELSE '' END
        ELSE 'the profiler reported no lost records'
    END AS reason,
    CASE WHEN tool NOT IN ('nsys', 'ncu') THEN 'a shorter timeline, of which less can be lost'
         WHEN kind <> 'timeline'
         THEN 'a timeline with nsys, which stores lost-record warnings in the file' END AS advice
FROM evaluated CROSS JOIN setting
ORDER BY trace_id
