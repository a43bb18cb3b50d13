/*
title    = "Innermost ranges by first launch and end"
question = "Of ranges with equal first launch and end, which is innermost?"
source   = """the last to start; the first launch of a range is the first that starts at or after
    its start"""
grain    = "first launch and end of ranges; several rows if the ranges are read in slices"
needs    = ["_launch_thread", "_launch_begin"]
optional = ["annotation", "_library_domain"]
slices   = "annotation"
[columns]
host_thread = "number of the thread (_launch_thread)"
is_library = "true for ranges of a library (_library_domain)"
first_position = """position of the first launch that starts at or after the start of the ranges
    (launch)"""
end_ns = "end of the ranges; NULL if they contain only their first launch (_launch_begin)"
start_ns = "start of the last range to start"
annotation_id = "the last range to start; of several, the last one recorded"
*/
-- One range per set of launches is enough, which leaves few per launch. Ranges with a single launch
-- need no search for their last one. Start and id are combined in one number (start × 2^63 + id),
-- which compares faster than a struct.
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
        WHERE r.kind <> 'mark' AND r.text IS NOT NULL AND r.source IS DISTINCT FROM 'frame'
          AND (r.end_thread_id IS NULL OR r.end_thread_id = r.thread_id)
    ) r
    ASOF JOIN _launch_begin f ON f.host_thread = r.host_thread AND r.start_ns <= f.start_ns
)
GROUP BY ALL
