/*
title    = "Launches of each range"
question = "Which launches of its thread does each NVTX range contain?"
source   = """an operation belongs to a range if its launching call is inside it on the same thread
    (nsys stats nvtx_kern_sum)"""
grain    = "NVTX range of any domain with at least one launch"
needs    = ["_launch_thread", "_launch_begin", "_launch_end"]
optional = ["annotation_range"]
returns = ["trace_id", "annotation_id", "host_thread", "first_position", "last_position"]
[columns]
annotation_id = "the range"
host_thread = "number of the thread (_launch_thread)"
first_position = "position of the first launch in the range (launch)"
last_position = "position of the last launch in the range; it contains all launches between them"
*/
-- Most ranges contain a single launch and need no second search.
WITH
same_thread AS (
    SELECT h.host_thread, r.annotation_id, r.start_ns, r.end_ns
    FROM annotation_range r
    JOIN _launch_thread h
        ON  h.trace_id = r.trace_id AND h.process_id IS NOT DISTINCT FROM r.process_id
        AND h.thread_id = r.thread_id
    WHERE r.end_thread_id IS NULL OR r.end_thread_id = r.thread_id
),
begun AS MATERIALIZED (
    SELECT r.host_thread, r.annotation_id, r.end_ns, f.position AS first_position,
        coalesce(r.end_ns >= f.end_ns AND r.end_ns < f.next_end_ns, false) AS holds_one
    FROM same_thread r
    ASOF JOIN _launch_begin f ON f.host_thread = r.host_thread AND r.start_ns <= f.start_ns
),
run AS (
    SELECT host_thread, annotation_id, first_position, first_position AS last_position
    FROM begun WHERE holds_one
    UNION ALL
    SELECT r.host_thread, r.annotation_id, r.first_position, l.position
    FROM begun r
    ASOF JOIN _launch_end l ON l.host_thread = r.host_thread AND r.end_ns >= l.end_ns
    WHERE NOT r.holds_one AND l.position >= r.first_position
)
SELECT h.trace_id, r.annotation_id, host_thread, r.first_position, r.last_position
FROM run r
JOIN _launch_thread h USING (host_thread)
