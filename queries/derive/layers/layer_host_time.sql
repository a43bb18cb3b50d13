/*
title    = "Host time by layer"
question = """How much host time did each layer take, forward and backward, and how much is outside
    all layers?"""
source   = """exclusive time: at each moment of a thread, time belongs to the layer that would own a
    kernel launched then (_launch_scope)"""
grain    = """layer, phase and iteration in the analysis window of a process that marks layers;
    layer NULL for time outside the layers of all threads"""
needs    = ["annotation_semantics", "host_window"]
optional = ["_sequence_layer", "_autograd_thread", "_forward_operator"]
returns = ["trace_id", "process_id", "iteration", "layer", "layer_evidence", "phase", "host_ns"]
[columns]
layer = "the layer; NULL for time outside the layers of all threads"
layer_evidence = "nvtx, nvtx backward or sequence (_launch_scope); NULL without a layer"
phase = """data, forward, loss, backward, optimizer or communication; NULL when unknown; without a
    layer, the phase of the thread that marked the iteration"""
host_ns = """time of the ranges of the layer, without other layers inside them; times of several
    ranges and threads add up"""
*/
WITH
span AS (
    SELECT w.trace_id, coalesce(w.process_id, -1) AS process, w.iteration, w.thread_id, w.start_ns,
        w.end_ns
    FROM host_window w
    SEMI JOIN (SELECT trace_id, process_id FROM annotation_semantics WHERE layer IS NOT NULL) m
        ON m.trace_id = w.trace_id AND m.process_id IS NOT DISTINCT FROM w.process_id
),
-- Processes and threads are numbered, because sorting and joining numbers is faster than texts.
program AS MATERIALIZED (
    SELECT *, row_number() OVER () AS program FROM (SELECT DISTINCT trace_id, process FROM span)
),
host_thread AS MATERIALIZED (
    SELECT *, row_number() OVER () AS host_thread
    FROM (
        SELECT DISTINCT trace_id, coalesce(process_id, -1) AS process, thread_id
        FROM annotation_semantics
    )
    JOIN program USING (trace_id, process)
),
marking AS NOT MATERIALIZED (
    SELECT h.host_thread, m.trace_id, m.annotation_id, m.position, m.start_ns, m.end_ns,
        m.layer_order, m.phase IS NOT NULL AS has_phase,
        m.layer_order IS NOT NULL AND m.layer_kind IN ('convention', 'stack', 'plain') AS is_whole,
        m.is_backward, m.is_backward AND m.seq IS NOT NULL AS is_node,
        m.layer IS NOT NULL OR m.phase IS NOT NULL OR m.is_backward AS may_be_forward
    FROM annotation_semantics m
    JOIN host_thread h
        ON  h.trace_id = m.trace_id AND h.process = coalesce(m.process_id, -1)
        AND h.thread_id IS NOT DISTINCT FROM m.thread_id
    WHERE m.end_ns > m.start_ns
),
-- Most ranges are operators inside ranges of a better kind and change nothing.
outer_range AS MATERIALIZED (
    SELECT *
    FROM (
        SELECT host_thread, trace_id, annotation_id, position, start_ns, end_ns, has_phase,
            CASE WHEN is_whole OR NOT in_layer THEN layer_order END AS layer_order,
            is_node AND NOT in_layer AS is_node,
            is_backward AND NOT in_backward AS is_backward,
            may_be_forward AND NOT in_backward AND NOT in_phase AS may_be_forward
        FROM (
            SELECT *,
                coalesce(end_ns <= max(end_ns) FILTER (is_whole) OVER earlier, false) AS in_layer,
                coalesce(end_ns <= max(end_ns) FILTER (is_backward) OVER earlier, false)
                    AS in_backward,
                coalesce(end_ns <= max(end_ns) FILTER (has_phase) OVER earlier, false) AS in_phase
            FROM marking
            WINDOW earlier AS (
                PARTITION BY host_thread ORDER BY position
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        )
    )
    WHERE layer_order IS NOT NULL OR has_phase OR is_node OR is_backward OR may_be_forward
),
deciding AS MATERIALIZED (
    SELECT a.* EXCLUDE (may_be_forward),
        a.may_be_forward AND f.annotation_id IS NOT NULL AS is_forward
    FROM outer_range a
    LEFT JOIN _forward_operator f
        ON a.may_be_forward AND f.trace_id = a.trace_id AND f.annotation_id = a.annotation_id
    WHERE layer_order IS NOT NULL OR has_phase OR is_node OR is_backward
        OR a.may_be_forward AND f.annotation_id IS NOT NULL
),
-- Layers and phases by position, so that texts are not part of the sorted rows.
label AS MATERIALIZED (
    SELECT t.host_thread, t.position, t.layer_order, m.layer_kind, m.layer, m.origin, m.phase,
        b.layer AS node_layer
    FROM deciding t
    JOIN annotation_semantics m USING (trace_id, annotation_id)
    LEFT JOIN _sequence_layer b
        ON t.is_node AND b.trace_id = t.trace_id AND b.backward_range_id = t.annotation_id
),
-- The marks of a thread change only where a range starts or ends. Between two such times, the open
-- ranges decide as those around a launch do (_launch_attribution).
edge AS MATERIALIZED (
    SELECT host_thread, at_ns, row_number() OVER thread AS moment, lead(at_ns) OVER thread AS end_ns
    FROM (SELECT DISTINCT host_thread, unnest([start_ns, end_ns]) AS at_ns FROM deciding)
    WINDOW thread AS (PARTITION BY host_thread ORDER BY at_ns)
),
open_range AS (
    SELECT t.host_thread, unnest(range(b.moment, e.moment)) AS moment, t.layer_order,
        CASE WHEN t.has_phase THEN t.position END AS phase_position,
        CASE WHEN t.is_node THEN t.position END AS backward_position, t.is_backward, t.is_forward
    FROM deciding t
    LEFT JOIN edge b ON b.host_thread = t.host_thread AND b.at_ns = t.start_ns
    LEFT JOIN edge e ON e.host_thread = t.host_thread AND e.at_ns = t.end_ns
),
owner AS MATERIALIZED (
    SELECT host_thread, moment, max(layer_order) AS layer_order,
        max(phase_position) AS phase_position, max(backward_position) AS backward_position,
        bool_or(is_backward) AS is_backward, bool_or(is_forward) AS is_forward
    FROM open_range GROUP BY ALL
),
state AS MATERIALIZED (
    SELECT o.*, e.at_ns AS start_ns, e.end_ns
    FROM owner o JOIN edge e USING (host_thread, moment)
),
-- Moments in a row with the same deciding range are one.
phase_state AS MATERIALIZED (
    SELECT h.program, h.thread_id, min(s.start_ns) AS start_ns, max(s.end_ns) AS end_ns,
        any_value(p.phase) AS phase
    FROM (
        SELECT *, moment - row_number() OVER (
            PARTITION BY host_thread, phase_position ORDER BY moment) AS run
        FROM state
    ) s
    JOIN host_thread h USING (host_thread)
    JOIN label p ON p.host_thread = s.host_thread AND p.position = s.phase_position
    GROUP BY h.program, h.thread_id, s.host_thread, s.phase_position, s.run
),
-- The window of a process, cut at the start and end of phases of all its threads.
cut AS (
    SELECT program, unnest([start_ns, end_ns]) AS at_ns
    FROM span JOIN program USING (trace_id, process)
    UNION
    SELECT program, unnest([start_ns, end_ns]) FROM phase_state
),
slice AS MATERIALIZED (
    SELECT c.program, row_number() OVER in_program AS slice, c.at_ns,
        lead(c.at_ns) OVER in_program AS end_ns, s.iteration, s.thread_id AS driver_id,
        coalesce(c.at_ns < s.end_ns, false) AS counts
    FROM cut c
    ASOF LEFT JOIN (SELECT * FROM span JOIN program USING (trace_id, process)) s
        ON s.program = c.program AND c.at_ns >= s.start_ns
    WINDOW in_program AS (PARTITION BY c.program ORDER BY c.at_ns)
),
-- LEFT JOIN, because DuckDB may otherwise join all starts with all ends first.
phase_in AS (
    SELECT p.*, unnest(range(b.slice, e.slice)) AS slice
    FROM phase_state p
    LEFT JOIN slice b ON b.program = p.program AND b.at_ns = p.start_ns
    LEFT JOIN slice e ON e.program = p.program AND e.at_ns = p.end_ns
),
window_phase AS MATERIALIZED (
    SELECT program, slice,
        arg_max(p.phase, {'drives': p.thread_id = s.driver_id, 'thread': p.thread_id}) AS phase,
        any_value(p.phase) FILTER (p.thread_id = s.driver_id) AS driver_phase
    FROM phase_in p JOIN slice s USING (program, slice)
    WHERE s.counts
    GROUP BY ALL
),
-- Layer and phase of a thread at each moment, by the rules of _launch_scope.
owned AS MATERIALIZED (
    SELECT h.program, s.start_ns, s.end_ns,
        CASE WHEN o.layer_kind IN ('convention', 'stack', 'plain') THEN o.layer
             ELSE coalesce(n.node_layer, o.layer) END AS layer,
        CASE
            WHEN o.layer_kind IN ('convention', 'stack', 'plain') OR n.node_layer IS NULL
                THEN CASE WHEN s.is_backward THEN o.origin || ' backward' ELSE o.origin END
            ELSE 'sequence'
        END AS layer_evidence,
        coalesce(
            CASE WHEN s.is_backward THEN 'backward' END,
            p.phase,
            CASE WHEN s.is_forward THEN 'forward' END,
            CASE WHEN a.thread_id IS NOT NULL THEN 'backward' END) AS phase
    FROM state s
    JOIN host_thread h USING (host_thread)
    LEFT JOIN (FROM label WHERE layer_order IS NOT NULL) o
        ON o.host_thread = s.host_thread AND o.layer_order = s.layer_order
    LEFT JOIN (FROM label WHERE phase IS NOT NULL) p
        ON p.host_thread = s.host_thread AND p.position = s.phase_position
    LEFT JOIN (FROM label WHERE node_layer IS NOT NULL) n
        ON n.host_thread = s.host_thread AND n.position = s.backward_position
    LEFT JOIN _autograd_thread a
        ON  a.trace_id = h.trace_id AND coalesce(a.process_id, -1) = h.process
        AND a.thread_id = h.thread_id
    WHERE coalesce(o.layer, n.node_layer) IS NOT NULL
),
part AS MATERIALIZED (
    SELECT c.program, s.slice, greatest(c.start_ns, s.at_ns) AS start_ns,
        least(c.end_ns, s.end_ns) AS end_ns, c.layer, c.layer_evidence, c.phase
    FROM (
        SELECT o.*, unnest(range(coalesce(f.slice, 1), l.slice + 1)) AS slice
        FROM owned o
        ASOF LEFT JOIN slice f ON f.program = o.program AND o.start_ns >= f.at_ns
        ASOF JOIN slice l ON l.program = o.program AND o.end_ns > l.at_ns
    ) c
    JOIN slice s USING (program, slice)
    WHERE s.counts
),
-- Time during which any thread is in a layer, each moment once.
covered AS (
    SELECT program, slice, sum(until_ns - at_ns) FILTER (threads > 0)::BIGINT AS host_ns
    FROM (
        SELECT program, slice, at_ns,
            sum(step) OVER (PARTITION BY program, slice ORDER BY at_ns ROWS UNBOUNDED PRECEDING)
                AS threads,
            lead(at_ns) OVER (PARTITION BY program, slice ORDER BY at_ns) AS until_ns
        FROM (
            SELECT program, slice, at_ns, sum(step) AS step
            FROM (
                SELECT program, slice, unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS step
                FROM part
            )
            GROUP BY ALL HAVING sum(step) <> 0
        )
    )
    GROUP BY ALL
),
by_layer AS (
    SELECT program, slice, layer, layer_evidence, phase, sum(end_ns - start_ns)::BIGINT AS host_ns
    FROM part
    GROUP BY ALL
),
by_slice AS (
    SELECT s.program, s.iteration, t.layer, t.layer_evidence,
        coalesce(t.phase, w.driver_phase) AS phase, t.host_ns
    FROM by_layer t
    JOIN slice s USING (program, slice)
    LEFT JOIN window_phase w USING (program, slice)
    WHERE s.counts
    UNION ALL
    SELECT s.program, s.iteration, NULL, NULL, w.phase, s.end_ns - s.at_ns - coalesce(c.host_ns, 0)
    FROM slice s
    LEFT JOIN covered c USING (program, slice)
    LEFT JOIN window_phase w USING (program, slice)
    WHERE s.counts
)
SELECT p.trace_id, nullif(p.process, -1) AS process_id, b.iteration, b.layer, b.layer_evidence,
    b.phase, sum(b.host_ns)::BIGINT AS host_ns
FROM by_slice b
JOIN program p USING (program)
WHERE b.host_ns > 0
GROUP BY ALL
