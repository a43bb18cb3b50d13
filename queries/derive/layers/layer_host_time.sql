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
heard AS NOT MATERIALIZED (
    SELECT h.host_thread, m.trace_id, m.annotation_id, m.position, m.start_ns, m.end_ns,
        m.phase IS NOT NULL AS has_phase,
        CASE WHEN m.layer_order IS NOT NULL THEN m.layer_kind END AS layer_kind,
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
adding AS MATERIALIZED (
    SELECT *
    FROM (
        SELECT host_thread, trace_id, annotation_id, position, start_ns, end_ns, has_phase,
            CASE WHEN is_whole OR NOT in_layer THEN layer_kind END AS layer_kind,
            is_node AND NOT in_layer AS is_node,
            is_backward AND NOT in_backward AS is_backward,
            may_be_forward AND NOT in_backward AND NOT in_phase AS may_be_forward
        FROM (
            SELECT *,
                coalesce(end_ns <= max(end_ns) FILTER (is_whole) OVER earlier, false) AS in_layer,
                coalesce(end_ns <= max(end_ns) FILTER (is_backward) OVER earlier, false)
                    AS in_backward,
                coalesce(end_ns <= max(end_ns) FILTER (has_phase) OVER earlier, false) AS in_phase
            FROM heard
            WINDOW earlier AS (
                PARTITION BY host_thread ORDER BY position
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        )
    )
    WHERE layer_kind IS NOT NULL OR has_phase OR is_node OR is_backward OR may_be_forward
),
telling AS MATERIALIZED (
    SELECT a.* EXCLUDE (may_be_forward),
        a.may_be_forward AND f.annotation_id IS NOT NULL AS is_forward
    FROM adding a
    LEFT JOIN _forward_operator f
        ON a.may_be_forward AND f.trace_id = a.trace_id AND f.annotation_id = a.annotation_id
),
-- Layers and phases by position, so that texts are not part of the sorted rows.
said AS MATERIALIZED (
    SELECT t.host_thread, t.position, t.layer_kind, m.layer, m.origin, m.phase,
        b.layer AS node_layer
    FROM telling t
    JOIN annotation_semantics m USING (trace_id, annotation_id)
    LEFT JOIN _sequence_layer b
        ON t.is_node AND b.trace_id = t.trace_id AND b.backward_range_id = t.annotation_id
),
-- Each aspect of the ranges is evaluated separately: each kind of layer, the phase, the backward
-- operator. Ranges have weights such that at each moment the sum of the weights of the open ranges
-- is the position of the deciding range (annotation_semantics). For these kinds of layers the
-- outermost decides: each range covers the time after all earlier ones.
outermost AS (
    SELECT host_thread, layer_kind AS aspect, position AS weight, end_ns,
        greatest(start_ns, coalesce(max(end_ns) OVER earlier, start_ns)) AS start_ns
    FROM telling WHERE layer_kind IN ('stack', 'module', 'operator')
    WINDOW earlier AS (
        PARTITION BY host_thread, layer_kind ORDER BY position
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
-- For other aspects, the last range to start decides; of ranges that start together, the last in
-- the file until it ends.
aspect AS (
    SELECT host_thread, position, start_ns, end_ns,
        unnest([
            CASE WHEN layer_kind IN ('convention', 'plain') THEN layer_kind END,
            CASE WHEN has_phase THEN 'phase' END,
            CASE WHEN is_node THEN 'node' END
        ]) AS aspect
    FROM telling
),
lane AS MATERIALIZED (
    SELECT *, row_number() OVER () AS lane FROM (SELECT DISTINCT host_thread, aspect FROM aspect)
    WHERE aspect IS NOT NULL
),
innermost AS MATERIALIZED (
    SELECT l.lane, a.position, a.start_ns, a.end_ns
    FROM aspect a JOIN lane l USING (host_thread, aspect)
    QUALIFY end_ns > coalesce(max(end_ns) OVER (
        PARTITION BY lane, start_ns ORDER BY position DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)
),
-- Nested ranges: at the end of one, the enclosing one decides again, the last one level up (as in
-- annotation_tree). Its weight is therefore the difference of positions.
event AS (
    SELECT lane, position, start_ns, end_ns, start_ns AS at_ns, 1 AS step FROM innermost
    UNION ALL
    SELECT lane, position, start_ns, end_ns, end_ns, -1 FROM innermost
),
leveled AS MATERIALIZED (
    SELECT lane, position, start_ns, end_ns, depth
    FROM (
        SELECT *, sum(step) OVER (
            PARTITION BY lane ORDER BY at_ns, step, position
            ROWS UNBOUNDED PRECEDING)::BIGINT AS depth
        FROM event
    )
    WHERE step = 1
),
parented AS MATERIALIZED (
    SELECT c.lane, c.start_ns, c.end_ns, c.position - coalesce(p.position, 0) AS weight,
        coalesce(c.end_ns > p.end_ns, false) AS crosses
    FROM leveled c
    ASOF LEFT JOIN leveled p
        ON c.lane = p.lane AND c.depth = p.depth + 1 AND c.position > p.position
),
-- Lanes with ranges that cross each other (start/end ranges may) are evaluated moment by moment
-- instead.
crossing AS (SELECT DISTINCT lane FROM parented WHERE crosses),
moment AS (
    SELECT lane, at_ns, row_number() OVER (PARTITION BY lane ORDER BY at_ns) AS moment
    FROM (
        SELECT DISTINCT lane, unnest([start_ns, end_ns]) AS at_ns
        FROM innermost SEMI JOIN crossing USING (lane)
    )
),
open_at AS (
    SELECT o.lane, o.position, unnest(range(b.moment, e.moment)) AS moment
    FROM innermost o
    LEFT JOIN moment b ON b.lane = o.lane AND b.at_ns = o.start_ns
    LEFT JOIN moment e ON e.lane = o.lane AND e.at_ns = o.end_ns
),
counted AS (
    SELECT m.lane, m.at_ns, coalesce(max(o.position), 0) AS counts
    FROM moment m LEFT JOIN open_at o USING (lane, moment)
    GROUP BY ALL
),
change AS MATERIALIZED (
    SELECT host_thread, aspect, unnest([start_ns, end_ns]) AS at_ns,
        unnest([weight, -weight]) AS weight
    FROM (
        SELECT host_thread, aspect, start_ns, end_ns, weight FROM outermost WHERE end_ns > start_ns
        UNION ALL
        SELECT l.host_thread, l.aspect, p.start_ns, p.end_ns, p.weight
        FROM parented p JOIN lane l USING (lane) ANTI JOIN crossing USING (lane)
        UNION ALL
        SELECT host_thread, 'backward', start_ns, end_ns, 1 FROM telling WHERE is_backward
        UNION ALL
        SELECT host_thread, 'forward', start_ns, end_ns, 1 FROM telling WHERE is_forward
    )
    UNION ALL
    SELECT l.host_thread, l.aspect, c.at_ns,
        c.counts - lag(c.counts, 1, 0) OVER (PARTITION BY c.lane ORDER BY c.at_ns)
    FROM counted c JOIN lane l USING (lane)
),
phase_state AS MATERIALIZED (
    SELECT h.program, h.thread_id, c.start_ns, c.end_ns, s.phase
    FROM (
        SELECT host_thread, at_ns AS start_ns,
            sum(sum(weight)) OVER (
                PARTITION BY host_thread ORDER BY at_ns ROWS UNBOUNDED PRECEDING)::BIGINT
                AS position,
            lead(at_ns) OVER (PARTITION BY host_thread ORDER BY at_ns) AS end_ns
        FROM change WHERE aspect = 'phase'
        GROUP BY host_thread, at_ns
    ) c
    JOIN host_thread h USING (host_thread)
    JOIN said s USING (host_thread, position)
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
-- All aspects of a thread together, moment by moment, cut by slices. Three aspects share one
-- 128-bit number, with 40 bits each, which halves the columns to sort.
turn AS (
    SELECT host_thread, at_ns,
        sum(weight * CASE aspect WHEN 'convention' THEN 1::HUGEINT
            WHEN 'stack' THEN 1::HUGEINT << 40
            WHEN 'plain' THEN 1::HUGEINT << 80 END) AS whole,
        sum(weight * CASE aspect WHEN 'module' THEN 1::HUGEINT
            WHEN 'operator' THEN 1::HUGEINT << 40
            WHEN 'phase' THEN 1::HUGEINT << 80 END) AS called,
        sum(weight * CASE aspect WHEN 'node' THEN 1::HUGEINT
            WHEN 'backward' THEN 1::HUGEINT << 40
            WHEN 'forward' THEN 1::HUGEINT << 80 END) AS passed,
        sum(weight) FILTER (aspect = 'slice')::BIGINT AS slice
    FROM (
        FROM change
        UNION ALL
        -- The last slice resets the sum to 0.
        SELECT h.host_thread, 'slice', s.at_ns,
            CASE WHEN s.end_ns IS NULL THEN 1 - s.slice ELSE 1 END
        FROM slice s
        JOIN host_thread h USING (program)
        SEMI JOIN (
            SELECT host_thread FROM telling WHERE layer_kind IS NOT NULL OR is_node
        ) l USING (host_thread)
    )
    GROUP BY host_thread, at_ns
),
-- Each range opens and closes, so the weights of a thread sum to 0 and one window over all threads
-- gives the same sums as one per thread, in half the time. Windows without ORDER BY keep the order
-- of the rows.
summed AS (
    SELECT host_thread, at_ns AS start_ns, lead(at_ns) OVER () AS end_ns,
        sum(slice) OVER so_far AS slice, sum(whole) OVER so_far AS whole,
        sum(called) OVER so_far AS called, sum(passed) OVER so_far AS passed
    FROM (FROM turn ORDER BY host_thread, at_ns)
    WINDOW so_far AS (ROWS UNBOUNDED PRECEDING)
),
state AS (
    SELECT host_thread, start_ns, end_ns, slice::BIGINT AS slice,
        coalesce(
            nullif(whole % (1::HUGEINT << 40), 0), nullif((whole >> 40) % (1::HUGEINT << 40), 0),
            nullif(whole >> 80, 0), nullif(called % (1::HUGEINT << 40), 0),
            (called >> 40) % (1::HUGEINT << 40))::BIGINT AS layer,
        (called >> 80)::BIGINT AS phase, (passed % (1::HUGEINT << 40))::BIGINT AS node,
        (passed >> 40) % (1::HUGEINT << 40) > 0 AS is_backward, passed >> 80 > 0 AS is_forward
    FROM summed
),
-- Layer and phase of a thread at each moment, by the rules of _launch_scope.
owned AS MATERIALIZED (
    SELECT h.program, s.slice, s.start_ns, s.end_ns,
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
    LEFT JOIN (FROM said WHERE layer IS NOT NULL OR layer_kind IS NOT NULL) o
        ON o.host_thread = s.host_thread AND o.position = s.layer
    LEFT JOIN (FROM said WHERE phase IS NOT NULL) p
        ON p.host_thread = s.host_thread AND p.position = s.phase
    LEFT JOIN (FROM said WHERE node_layer IS NOT NULL) n
        ON n.host_thread = s.host_thread AND n.position = s.node
    LEFT JOIN _autograd_thread a
        ON  a.trace_id = h.trace_id AND coalesce(a.process_id, -1) = h.process
        AND a.thread_id = h.thread_id
    WHERE coalesce(o.layer, n.node_layer) IS NOT NULL
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
                FROM owned
            )
            GROUP BY ALL HAVING sum(step) <> 0
        )
    )
    GROUP BY ALL
),
told AS (
    SELECT program, slice, layer, layer_evidence, phase, sum(end_ns - start_ns)::BIGINT AS host_ns
    FROM owned
    GROUP BY ALL
),
by_slice AS (
    SELECT s.program, s.iteration, t.layer, t.layer_evidence,
        coalesce(t.phase, w.driver_phase) AS phase, t.host_ns
    FROM told t
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
