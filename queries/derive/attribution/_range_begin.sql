/*
title    = "Ranges with the same first launch"
question = "Of the ranges that hold the same launches of a thread, which is the innermost?"
source   = "the one that began last; the first launch of a range is the first that begins with or after it"
grain    = "one or more ranges with one first launch and one end_ns; several rows where ranges come in slices"
needs    = ["_launch_thread", "_launch_begin"]
optional = ["annotation", "_library_domain"]
slices   = "annotation"
[columns.host_thread]
doc = "number of the thread (_launch_thread)"
[columns.is_library]
doc = "the ranges are a library's (_library_domain)"
[columns.first_position]
doc = "position (launch) of the first launch that begins with or after them"
[columns.end_ns]
unit = "ns"
doc = "when they end; NULL where they hold their first launch alone (_launch_begin)"
[columns.start_ns]
unit = "ns"
doc = "when the one that began last did"
[columns.annotation_id]
doc = "that range; of several the one that the profiler recorded last"
*/
-- Of ranges that hold the same launches one is enough, so that few are left for each launch. Those
-- that hold one launch alone need no search for the last. Start and id are in one number, which DuckDB
-- compares faster than structs.
SELECT host_thread, is_library, first_position, end_ns,
    (max(began) >> 63)::BIGINT AS start_ns,
    (max(began) & 9_223_372_036_854_775_807)::BIGINT AS annotation_id
FROM (
    SELECT r.host_thread, r.is_library, f.position AS first_position,
        CASE WHEN r.end_ns >= f.end_ns AND r.end_ns < f.next_end_ns THEN NULL ELSE r.end_ns END
            AS end_ns,
        r.start_ns::HUGEINT * 9_223_372_036_854_775_808 + r.annotation_id AS began
    FROM (
        SELECT h.host_thread, r.annotation_id, r.start_ns, r.end_ns,
            y.domain IS NOT NULL AS is_library
        FROM annotation r
        JOIN _launch_thread h
            ON  h.trace_id = r.trace_id AND h.process_id IS NOT DISTINCT FROM r.process_id
            AND h.thread_id = r.thread_id
        LEFT JOIN _library_domain y ON y.domain = r.domain
        WHERE r.kind <> 'mark' AND r.text IS NOT NULL
          AND (r.end_thread_id IS NULL OR r.end_thread_id = r.thread_id)
    ) r
    ASOF JOIN _launch_begin f ON f.host_thread = r.host_thread AND r.start_ns <= f.start_ns
)
GROUP BY ALL
