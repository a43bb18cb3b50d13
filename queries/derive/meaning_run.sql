/*
title    = "Runs of launches with a meaning"
question = "From which to which of its thread's launches does each range reach that says something about them?"
source   = "as launch_run, for the ranges of nvtx_meaning alone: most ranges tell nothing about layers, and need no search"
grain    = "one range around at least one launch, of nvtx_meaning or of a library and with a phase"
needs    = ["launch_thread", "launch_begin", "launch_end", "nvtx_role"]
optional = ["nvtx_meaning", "nvtx_range"]
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
doc = "the range"
[columns.host_thread]
doc = "number of the thread (launch_thread)"
[columns.first_position]
doc = "position (launch) of the first launch in it"
[columns.last_position]
doc = "position of the last launch in it; all between are in it, too"
[columns.library_phase]
doc = "phase that a library's range marks; NULL for ranges of nvtx_meaning"
*/
WITH
marking AS (
    SELECT trace_id, process_id, thread_id, nvtx_range_id, start_ns, end_ns,
        -- a number instead of a text: there is less to sort
        CAST(NULL AS ENUM('data', 'forward', 'loss', 'backward', 'optimizer', 'communication')) AS library_phase
    FROM nvtx_meaning WHERE stays
    UNION ALL
    SELECT r.trace_id, r.process_id, r.thread_id, r.nvtx_range_id, r.start_ns, r.end_ns,
        CAST(m.phase AS ENUM('data', 'forward', 'loss', 'backward', 'optimizer', 'communication'))
    FROM nvtx_range r
    JOIN nvtx_role m ON m.trace_id = r.trace_id AND m.domain = r.domain AND m.text = r.text
    WHERE m.is_library AND m.phase IS NOT NULL
      AND r.domain IN (SELECT DISTINCT domain FROM nvtx_role WHERE is_library)
      AND (r.end_thread_id IS NULL OR r.end_thread_id = r.thread_id)
),
same_thread AS (
    SELECT h.host_thread, r.nvtx_range_id, r.start_ns, r.end_ns, r.library_phase
    FROM marking r
    JOIN launch_thread h
        ON  h.trace_id = r.trace_id AND h.process_id IS NOT DISTINCT FROM r.process_id
        AND h.thread_id = r.thread_id
),
begun AS (
    SELECT r.host_thread, r.nvtx_range_id, r.end_ns, r.library_phase,
        f.position AS first_position
    FROM same_thread r
    ASOF JOIN launch_begin f ON f.host_thread = r.host_thread AND r.start_ns <= f.start_ns
)
SELECT h.trace_id, r.nvtx_range_id, host_thread, r.first_position, l.position AS last_position,
    r.library_phase::VARCHAR AS library_phase
FROM begun r
JOIN launch_thread h USING (host_thread)
ASOF JOIN launch_end l ON l.host_thread = r.host_thread AND r.end_ns >= l.end_ns
WHERE l.position >= r.first_position
