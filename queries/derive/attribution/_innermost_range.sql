/*
title    = "Innermost range of each launch"
question = "Which NVTX range is innermost around each launch?"
source   = """of the ranges around a launch on its thread, the last to start; ranges of libraries
    only if there is no other"""
grain    = "launch inside a range"
needs    = ["launch", "_launch_end"]
optional = ["_range_begin"]
returns = ["trace_id", "api_call_id", "annotation_id"]
[columns]
api_call_id = "the launch"
annotation_id = "innermost range around the launch; if several started last, the last one recorded"
*/
WITH
-- Start and id are combined in one number (start × 2^63 + id), which compares faster than a struct.
begun AS (
    SELECT *, start_ns::HUGEINT * 9_223_372_036_854_775_808 + annotation_id AS innermost
    FROM _range_begin
),
contained AS (
    SELECT host_thread, is_library, first_position AS position, innermost
    FROM begun WHERE end_ns IS NULL
    UNION ALL
    SELECT host_thread, is_library, unnest(generate_series(first_position, last_position)),
        innermost
    FROM (
        SELECT b.*, l.position AS last_position
        FROM begun b
        ASOF JOIN _launch_end l ON l.host_thread = b.host_thread AND b.end_ns >= l.end_ns
        WHERE b.end_ns IS NOT NULL AND l.position >= b.first_position
    )
),
chosen AS (
    SELECT host_thread, position,
        coalesce(max(innermost) FILTER (NOT is_library), max(innermost)) AS innermost
    FROM contained GROUP BY ALL
)
SELECT l.trace_id, l.api_call_id, (c.innermost & 9_223_372_036_854_775_807)::BIGINT AS annotation_id
FROM launch l
JOIN chosen c ON c.host_thread = l.host_thread AND c.position = l.position
