/*
title    = "Innermost range of each launch"
question = "Which NVTX range is the innermost around each launch?"
source   = "of the ranges around a launch on its thread the one that began last; a library's only where no other is around"
grain    = "one launch in a range"
needs    = ["launch", "launch_thread", "launch_begin", "launch_end"]
optional = ["nvtx_range", "library_domain"]
[columns.trace_id]
doc = "the trace"
[columns.api_call_id]
doc = "the launch"
[columns.nvtx_range_id]
doc = "innermost range around it; of several that began last the one that the profiler recorded last"
*/
WITH
same_thread AS (
    SELECT h.host_thread, r.nvtx_range_id, r.start_ns, r.end_ns, y.domain IS NOT NULL AS is_library
    FROM nvtx_range r
    JOIN launch_thread h
        ON  h.trace_id = r.trace_id AND h.process_id IS NOT DISTINCT FROM r.process_id
        AND h.thread_id = r.thread_id
    LEFT JOIN library_domain y ON y.domain = r.domain
    WHERE r.text IS NOT NULL AND (r.end_thread_id IS NULL OR r.end_thread_id = r.thread_id)
),
-- Of the ranges that hold the same launches one is the innermost: few are left for each launch.
-- Those that hold one alone (launch_begin) need no search for the last. Start and id are in one
-- number, which DuckDB compares faster than structs.
begun AS MATERIALIZED (
    SELECT host_thread, is_library, first_position, end_ns, max(began) AS innermost
    FROM (
        SELECT r.host_thread, r.is_library, f.position AS first_position,
            CASE WHEN r.end_ns >= f.end_ns AND r.end_ns < f.next_end_ns THEN NULL ELSE r.end_ns END
                AS end_ns,
            r.start_ns::HUGEINT * 9_223_372_036_854_775_808 + r.nvtx_range_id AS began
        FROM same_thread r
        ASOF JOIN launch_begin f ON f.host_thread = r.host_thread AND r.start_ns <= f.start_ns
    )
    GROUP BY ALL
),
held AS (
    SELECT host_thread, is_library, first_position AS position, innermost
    FROM begun WHERE end_ns IS NULL
    UNION ALL
    SELECT host_thread, is_library, unnest(generate_series(first_position, last_position)), innermost
    FROM (
        SELECT b.*, l.position AS last_position
        FROM begun b
        ASOF JOIN launch_end l ON l.host_thread = b.host_thread AND b.end_ns >= l.end_ns
        WHERE b.end_ns IS NOT NULL AND l.position >= b.first_position
    )
),
chosen AS (
    SELECT host_thread, position,
        coalesce(max(innermost) FILTER (NOT is_library), max(innermost)) AS innermost
    FROM held GROUP BY ALL
)
SELECT l.trace_id, l.api_call_id, (c.innermost & 9_223_372_036_854_775_807)::BIGINT AS nvtx_range_id
FROM launch l
JOIN chosen c ON c.host_thread = l.host_thread AND c.position = l.position
