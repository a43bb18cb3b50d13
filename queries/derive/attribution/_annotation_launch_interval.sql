/*
title    = "Launches inside ranges with a role"
question = "Which launches of its thread does each range with a role contain?"
source   = """as _range_launch_interval, for the ranges of annotation_semantics only: most ranges
    have no role and need no search"""
grain    = """range with at least one launch, of annotation_semantics or of a library and with a
    phase"""
needs    = ["_launch_thread", "_launch_begin", "_launch_end", "_annotation_role"]
optional = ["annotation_semantics", "annotation_range"]
returns = [
    "trace_id", "annotation_id", "host_thread", "first_position", "last_position", "library_phase",
]
[columns]
host_thread = "number of the thread (_launch_thread)"
first_position = "position of the first launch in the range (launch)"
last_position = "position of the last launch in the range; it contains all launches between them"
library_phase = "phase marked by a range of a library; NULL for ranges of annotation_semantics"
*/
WITH
marking AS (
    SELECT trace_id, process_id, thread_id, annotation_id, start_ns, end_ns,
        -- An enumeration is a number, which is faster to sort than text.
        CAST(NULL AS ENUM('data', 'forward', 'loss', 'backward', 'optimizer', 'communication'))
            AS library_phase
    FROM annotation_semantics WHERE stays
    UNION ALL
    SELECT r.trace_id, r.process_id, r.thread_id, r.annotation_id, r.start_ns, r.end_ns,
        CAST(m.phase AS ENUM('data', 'forward', 'loss', 'backward', 'optimizer', 'communication'))
    FROM annotation_range r
    JOIN _annotation_role m ON m.trace_id = r.trace_id AND m.domain = r.domain AND m.text = r.text
    WHERE m.is_library AND m.phase IS NOT NULL
      AND r.domain IN (SELECT DISTINCT domain FROM _annotation_role WHERE is_library)
      AND (r.end_thread_id IS NULL OR r.end_thread_id = r.thread_id)
),
same_thread AS (
    SELECT h.host_thread, r.annotation_id, r.start_ns, r.end_ns, r.library_phase
    FROM marking r
    JOIN _launch_thread h
        ON  h.trace_id = r.trace_id AND h.process_id IS NOT DISTINCT FROM r.process_id
        AND h.thread_id = r.thread_id
),
begun AS (
    SELECT r.host_thread, r.annotation_id, r.end_ns, r.library_phase,
        f.position AS first_position
    FROM same_thread r
    ASOF JOIN _launch_begin f ON f.host_thread = r.host_thread AND r.start_ns <= f.start_ns
)
SELECT h.trace_id, r.annotation_id, host_thread, r.first_position, l.position AS last_position,
    r.library_phase::VARCHAR AS library_phase
FROM begun r
JOIN _launch_thread h USING (host_thread)
ASOF JOIN _launch_end l ON l.host_thread = r.host_thread AND r.end_ns >= l.end_ns
WHERE l.position >= r.first_position
