/*
title    = "Dropped records"
question = "Did the profiler lose records?"
source   = "the profiler's own warnings, as the trace's notes keep them"
grain    = "trace"
needs    = ["trace"]
[check]
rule = "ROB04"
scope = "trace"
thresholds = "proposed"
advice = "profile for a shorter time or trace less, so that the profiler's buffers hold it; what is missing is in none of the numbers"
collect = "a timeline of the whole recording, not of a slice of it"
[params.max_dropped]
doc = "most warnings about lost records that may be"
default = 0
*/
WITH
setting AS (SELECT coalesce(getvariable('max_dropped'), 0)::BIGINT AS max_dropped),
told AS (
    SELECT trace_id, tool, kind,
        list_filter(notes, lambda note: regexp_matches(note, '(?i)^nsys: .*(dropp|\blost\b|overflow)')) AS lost,
        list_filter(notes, lambda note: contains(note, 'have no launching call')) AS unlaunched
    FROM trace
),
judged AS (
    SELECT *, coalesce(len(lost), 0) AS warnings,
        CASE
            WHEN kind <> 'timeline' THEN format('a {} file is no recording that could drop events', kind)
            WHEN tool <> 'nsys' THEN tool || ' does not keep in the file what it dropped'
            WHEN coalesce(len(lost), 0) = 0 AND len(unlaunched) > 0 THEN unlaunched[1]
        END AS why_not
    FROM told
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable' WHEN warnings > max_dropped THEN 'finding'
         ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'severe' END AS severity,
    CASE WHEN why_not IS NULL THEN warnings END::DOUBLE AS value, max_dropped::DOUBLE AS threshold,
    'warning' AS unit, CASE WHEN why_not IS NULL THEN 'profiler' END AS evidence,
    CASE
        WHEN why_not IS NOT NULL THEN why_not
        WHEN warnings > 0 THEN array_to_string(lost[:3], '; ')
            || CASE WHEN warnings > 3 THEN format('; and {} more', warnings - 3) ELSE '' END
        ELSE 'the profiler warned of no lost records'
    END AS reason,
    CASE WHEN kind <> 'timeline' OR tool <> 'nsys'
         THEN 'a timeline with nsys, whose warnings about lost records are kept' END AS advice
FROM judged CROSS JOIN setting
ORDER BY trace_id
