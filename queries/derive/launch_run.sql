/*
title    = "Runs of launches"
question = "From which to which of its thread's launches does each NVTX range reach?"
source   = "an operation belongs to a range if its launching call lies inside it on the same thread (nsys stats nvtx_kern_sum)"
grain    = "one NVTX range, whatever the domain, around at least one launch"
needs    = ["launch"]
optional = ["nvtx_range"]
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
doc = "the range"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.first_position]
doc = "position (launch) of the first launch in it"
[columns.last_position]
doc = "position of the last launch in it; all between are in it, too"
*/
-- The calls of a thread follow each other, so a range holds a run of them: from the first that
-- begins at or after its start to the last that ends by its end. Threads are numbered, so that
-- ranges are sorted and joined by numbers alone.
WITH
host_thread AS MATERIALIZED (
    SELECT *, row_number() OVER () AS host_thread
    FROM (SELECT DISTINCT trace_id, process_id, thread_id FROM launch WHERE thread_id IS NOT NULL)
),
call AS MATERIALIZED (
    SELECT h.host_thread, l.start_ns, l.end_ns, l.position
    FROM launch l
    JOIN host_thread h
        ON  h.trace_id = l.trace_id AND h.process_id IS NOT DISTINCT FROM l.process_id
        AND h.thread_id = l.thread_id
),
last_by AS MATERIALIZED (
    SELECT host_thread, end_ns, max(position) AS position FROM call GROUP BY ALL
),
-- Most ranges hold one launch alone: those that end from its end on, but before the next end.
lasting AS (
    SELECT host_thread, position, end_ns,
        lead(end_ns) OVER (PARTITION BY host_thread ORDER BY end_ns) AS next_end_ns
    FROM last_by
),
first_at AS (
    SELECT host_thread, f.start_ns, f.position, l.end_ns, l.next_end_ns
    FROM (SELECT host_thread, start_ns, min(position) AS position FROM call GROUP BY ALL) f
    LEFT JOIN lasting l USING (host_thread, position)
),
same_thread AS (
    SELECT h.host_thread, r.nvtx_range_id, r.start_ns, r.end_ns
    FROM nvtx_range r
    JOIN host_thread h
        ON  h.trace_id = r.trace_id AND h.process_id IS NOT DISTINCT FROM r.process_id
        AND h.thread_id = r.thread_id
    WHERE r.end_thread_id IS NULL OR r.end_thread_id = r.thread_id
),
begun AS MATERIALIZED (
    SELECT r.host_thread, r.nvtx_range_id, r.end_ns, f.position AS first_position,
        coalesce(r.end_ns >= f.end_ns AND r.end_ns < f.next_end_ns, false) AS holds_one
    FROM same_thread r
    ASOF JOIN first_at f ON r.host_thread = f.host_thread AND r.start_ns <= f.start_ns
),
run AS (
    SELECT host_thread, nvtx_range_id, first_position, first_position AS last_position
    FROM begun WHERE holds_one
    UNION ALL
    SELECT r.host_thread, r.nvtx_range_id, r.first_position, l.position
    FROM begun r
    ASOF JOIN last_by l ON r.host_thread = l.host_thread AND r.end_ns >= l.end_ns
    WHERE NOT r.holds_one AND l.position >= r.first_position
)
SELECT h.trace_id, r.nvtx_range_id, h.process_id, h.thread_id, r.first_position, r.last_position
FROM run r
JOIN host_thread h USING (host_thread)
