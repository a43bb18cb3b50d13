/*
title    = "Host time by layer"
question = "How much time did each layer take on the host, forward and backward, and how much did no layer take?"
source   = "exclusive time: at every moment of a thread the layer that would own a kernel launched then (launch_scope) owns the time"
grain    = "one layer, phase and iteration of the analysis window of a process that marks layers; layer NULL for the time that no layer of any thread owns"
needs    = ["nvtx_meaning", "host_window"]
optional = ["sequence_layer", "forward_operator", "thread"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.iteration]
doc = "number of the iteration; NULL for the whole trace"
[columns.layer]
doc = "the layer; NULL for the time that no layer of any thread owns"
[columns.layer_evidence]
doc = "nvtx, nvtx backward or sequence (launch_scope); NULL without a layer"
[columns.phase]
doc = "data, forward, loss, backward, optimizer, communication; NULL when nothing tells; without a layer the phase of the thread that marked the iteration"
[columns.host_ns]
unit = "ns"
doc = "time of its ranges, without what other layers inside them take; several ranges add up, as do several threads"
*/
WITH
span AS (
    SELECT w.trace_id, coalesce(w.process_id, -1) AS process, w.iteration, w.thread_id, w.start_ns, w.end_ns
    FROM host_window w
    SEMI JOIN (SELECT trace_id, process_id FROM nvtx_meaning WHERE layer IS NOT NULL) m
        ON m.trace_id = w.trace_id AND m.process_id IS NOT DISTINCT FROM w.process_id
),
host_thread AS MATERIALIZED (
    SELECT *, row_number() OVER () AS host_thread
    FROM (
        SELECT DISTINCT trace_id, coalesce(process_id, -1) AS process, thread_id FROM nvtx_meaning
    )
    SEMI JOIN span USING (trace_id, process)
),
-- Each thing that ranges say is told apart from the others: the layer, by its kind, the phase, the
-- backward operator, and whether the pass is backward or forward.
said AS MATERIALIZED (
    SELECT h.host_thread, m.position, m.start_ns, m.end_ns,
        unnest([
            CASE WHEN m.layer_order IS NOT NULL THEN m.layer_kind END,
            CASE WHEN m.phase IS NOT NULL THEN 'phase' END,
            CASE WHEN m.is_backward AND m.seq IS NOT NULL THEN 'node' END,
            CASE WHEN m.is_backward THEN 'backward' END,
            CASE WHEN f.nvtx_range_id IS NOT NULL
                  AND (m.layer IS NOT NULL OR m.phase IS NOT NULL OR m.is_backward) THEN 'forward' END
        ]) AS aspect
    FROM nvtx_meaning m
    JOIN host_thread h
        ON  h.trace_id = m.trace_id AND h.process = coalesce(m.process_id, -1)
        AND h.thread_id IS NOT DISTINCT FROM m.thread_id
    LEFT JOIN forward_operator f
        ON f.trace_id = m.trace_id AND f.nvtx_range_id = m.nvtx_range_id
    WHERE m.end_ns > m.start_ns
),
-- Of layers of these kinds the outermost counts, and of a pass any: each tells of the time that no
-- earlier one has told of.
outermost AS (
    SELECT host_thread, aspect, position, end_ns,
        greatest(start_ns, coalesce(max(end_ns) OVER earlier, start_ns)) AS start_ns
    FROM said WHERE aspect IN ('stack', 'module', 'operator', 'backward', 'forward')
    WINDOW earlier AS (
        PARTITION BY host_thread, aspect ORDER BY position
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
-- Of the others the one that began last counts. Of those that begin together that is the last in
-- the file, while it lasts.
innermost AS (
    SELECT host_thread, aspect, position, end_ns, start_ns
    FROM said WHERE aspect IN ('convention', 'plain', 'phase', 'node')
    QUALIFY end_ns > coalesce(max(end_ns) OVER (
        PARTITION BY host_thread, aspect, start_ns ORDER BY position DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)
),
ordered AS MATERIALIZED (
    SELECT * FROM (FROM outermost UNION ALL BY NAME FROM innermost) WHERE end_ns > start_ns
),
-- They nest: where one ends, the one around it counts again, the last one level up (as nvtx_tree).
event AS (
    SELECT host_thread, aspect, position, start_ns, end_ns, start_ns AS at_ns, 1 AS step
    FROM ordered
    UNION ALL
    SELECT host_thread, aspect, position, start_ns, end_ns, end_ns, -1
    FROM ordered
),
leveled AS MATERIALIZED (
    SELECT host_thread, aspect, position, start_ns, end_ns, depth
    FROM (
        SELECT *, sum(step) OVER (
            PARTITION BY host_thread, aspect ORDER BY at_ns, step, position
            ROWS UNBOUNDED PRECEDING)::BIGINT AS depth
        FROM event
    )
    WHERE step = 1
),
parented AS MATERIALIZED (
    SELECT c.*, p.position AS parent, coalesce(c.end_ns > p.end_ns, false) AS crosses
    FROM leveled c
    ASOF LEFT JOIN leveled p
        ON  c.host_thread = p.host_thread AND c.aspect = p.aspect AND c.depth = p.depth + 1
        AND c.position > p.position
),
-- Ranges that cross each other (start/end ranges may) are compared moment by moment instead.
crossing AS (SELECT DISTINCT host_thread, aspect FROM parented WHERE crosses),
moment AS (
    SELECT host_thread, aspect, at_ns,
        row_number() OVER (PARTITION BY host_thread, aspect ORDER BY at_ns) AS moment
    FROM (
        SELECT DISTINCT host_thread, aspect, unnest([start_ns, end_ns]) AS at_ns
        FROM ordered SEMI JOIN crossing USING (host_thread, aspect)
    )
),
open_at AS (
    SELECT o.host_thread, o.aspect, o.position,
        unnest(range(b.moment, e.moment)) AS moment
    FROM ordered o
    JOIN moment b
        ON b.host_thread = o.host_thread AND b.aspect = o.aspect AND b.at_ns = o.start_ns
    JOIN moment e
        ON e.host_thread = o.host_thread AND e.aspect = o.aspect AND e.at_ns = o.end_ns
),
-- What counts from each moment on, by its position (nvtx_meaning); 0 for nothing.
change AS MATERIALIZED (
    SELECT host_thread, aspect, at_ns, arg_max(counts, turn)::BIGINT AS counts
    FROM (
        SELECT host_thread, aspect, start_ns AS at_ns, position AS counts, position AS turn
        FROM parented
        UNION ALL
        SELECT host_thread, aspect, end_ns, coalesce(parent, 0), -depth FROM parented
    )
    ANTI JOIN crossing USING (host_thread, aspect)
    GROUP BY ALL
    UNION ALL
    SELECT m.host_thread, m.aspect, m.at_ns,
        coalesce(max(o.position), 0)
    FROM moment m LEFT JOIN open_at o USING (host_thread, aspect, moment)
    GROUP BY ALL
),
-- All of them together: the last change of each.
moments AS (
    SELECT host_thread, at_ns AS start_ns,
        lead(at_ns) OVER (PARTITION BY host_thread ORDER BY at_ns) AS end_ns
    FROM (SELECT DISTINCT host_thread, at_ns FROM change)
),
state AS MATERIALIZED (
    SELECT m.host_thread, m.start_ns, m.end_ns,
        convention.counts AS convention,
        stack.counts AS stack,
        plain.counts AS plain,
        module.counts AS module,
        operator.counts AS operator,
        phase.counts AS phase,
        node.counts AS node,
        backward.counts AS backward,
        forward.counts AS forward
    FROM moments m
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'convention') convention
        ON convention.host_thread = m.host_thread AND m.start_ns >= convention.at_ns
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'stack') stack
        ON stack.host_thread = m.host_thread AND m.start_ns >= stack.at_ns
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'plain') plain
        ON plain.host_thread = m.host_thread AND m.start_ns >= plain.at_ns
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'module') module
        ON module.host_thread = m.host_thread AND m.start_ns >= module.at_ns
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'operator') operator
        ON operator.host_thread = m.host_thread AND m.start_ns >= operator.at_ns
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'phase') phase
        ON phase.host_thread = m.host_thread AND m.start_ns >= phase.at_ns
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'node') node
        ON node.host_thread = m.host_thread AND m.start_ns >= node.at_ns
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'backward') backward
        ON backward.host_thread = m.host_thread AND m.start_ns >= backward.at_ns
    ASOF LEFT JOIN (SELECT * FROM change WHERE aspect = 'forward') forward
        ON forward.host_thread = m.host_thread AND m.start_ns >= forward.at_ns
    WHERE m.end_ns IS NOT NULL
),
-- Threads that run nothing but backward operators are autograd's.
autograd AS (
    SELECT m.trace_id, m.process_id, m.thread_id
    FROM nvtx_meaning m
    JOIN sequence_layer s ON s.trace_id = m.trace_id AND s.backward_range_id = m.nvtx_range_id
    EXCEPT
    SELECT m.trace_id, m.process_id, m.thread_id
    FROM nvtx_meaning m
    JOIN sequence_layer s ON s.trace_id = m.trace_id AND s.forward_range_id = m.nvtx_range_id
    UNION
    SELECT trace_id, process_id, thread_id FROM thread WHERE starts_with(name, 'pt_autograd')
),
backward_layer AS (
    SELECT m.trace_id, m.position, s.layer
    FROM sequence_layer s
    JOIN nvtx_meaning m ON m.trace_id = s.trace_id AND m.nvtx_range_id = s.backward_range_id
),
-- What a thread's ranges say of a stretch, as launch_scope's `own` says it of a launch.
owned AS MATERIALIZED (
    SELECT h.trace_id, h.process, s.start_ns, s.end_ns,
        CASE WHEN o.layer_kind IN ('convention', 'stack', 'plain') THEN o.layer
             ELSE coalesce(b.layer, o.layer) END AS layer,
        CASE
            WHEN o.layer_kind IN ('convention', 'stack', 'plain') OR b.layer IS NULL
                THEN CASE WHEN s.backward > 0 THEN 'nvtx backward' ELSE 'nvtx' END
            ELSE 'sequence'
        END AS layer_evidence,
        coalesce(
            CASE WHEN s.backward > 0 THEN 'backward' END,
            p.phase,
            CASE WHEN s.forward > 0 THEN 'forward' END,
            CASE WHEN a.thread_id IS NOT NULL THEN 'backward' END) AS phase
    FROM state s
    JOIN host_thread h USING (host_thread)
    LEFT JOIN nvtx_meaning o
        ON  o.trace_id = h.trace_id AND o.position = CASE
            WHEN s.convention > 0 THEN s.convention WHEN s.stack > 0 THEN s.stack
            WHEN s.plain > 0 THEN s.plain WHEN s.module > 0 THEN s.module ELSE s.operator END
    LEFT JOIN nvtx_meaning p ON p.trace_id = h.trace_id AND p.position = s.phase
    LEFT JOIN backward_layer b ON b.trace_id = h.trace_id AND b.position = s.node
    LEFT JOIN autograd a
        ON  a.trace_id = h.trace_id AND coalesce(a.process_id, -1) = h.process
        AND a.thread_id = h.thread_id
    WHERE coalesce(o.layer, b.layer) IS NOT NULL
),
phase_state AS MATERIALIZED (
    SELECT h.trace_id, h.process, h.thread_id, c.start_ns, c.end_ns, m.phase
    FROM (
        SELECT host_thread, at_ns AS start_ns, counts,
            lead(at_ns) OVER (PARTITION BY host_thread ORDER BY at_ns) AS end_ns
        FROM change WHERE aspect = 'phase'
    ) c
    JOIN host_thread h USING (host_thread)
    JOIN nvtx_meaning m ON m.trace_id = h.trace_id AND m.position = c.counts
),
-- The window of a process, cut where a phase begins or ends on any of its threads. Position: how
-- many slices of the window came before.
cut AS (
    SELECT trace_id, process, unnest([start_ns, end_ns]) AS at_ns FROM span
    UNION
    SELECT trace_id, process, unnest([start_ns, end_ns]) FROM phase_state
),
slice AS MATERIALIZED (
    SELECT c.trace_id, c.process, c.at_ns, lead(c.at_ns) OVER in_process AS end_ns,
        s.iteration, s.thread_id AS driver_id, coalesce(c.at_ns < s.end_ns, false) AS counts,
        (sum(counts::BIGINT) OVER in_process - counts::BIGINT)::BIGINT AS position
    FROM cut c
    ASOF LEFT JOIN span s
        ON s.trace_id = c.trace_id AND s.process = c.process AND c.at_ns >= s.start_ns
    WINDOW in_process AS (PARTITION BY c.trace_id, c.process ORDER BY c.at_ns)
),
phase_in AS (
    SELECT p.*, unnest(range(b.position, e.position)) AS position
    FROM phase_state p
    JOIN slice b ON b.trace_id = p.trace_id AND b.process = p.process AND b.at_ns = p.start_ns
    JOIN slice e ON e.trace_id = p.trace_id AND e.process = p.process AND e.at_ns = p.end_ns
),
window_phase AS MATERIALIZED (
    SELECT s.trace_id, s.process, s.position,
        arg_max(p.phase, {'drives': p.thread_id = s.driver_id, 'thread': p.thread_id}) AS phase,
        any_value(p.phase) FILTER (p.thread_id = s.driver_id) AS driver_phase
    FROM phase_in p
    JOIN slice s USING (trace_id, process, position)
    WHERE s.counts
    GROUP BY ALL
),
-- Stretches in which any thread is in a layer, each moment once.
covered AS (
    SELECT trace_id, process, NULL AS layer, NULL AS layer_evidence, NULL AS phase, false AS is_layer,
        greatest(start_ns, coalesce(max(end_ns) OVER earlier, start_ns)) AS start_ns, end_ns
    FROM owned
    WINDOW earlier AS (
        PARTITION BY trace_id, process ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
placed AS (
    SELECT o.*, unnest(range(coalesce(b.position, 0), e.position + e.counts::BIGINT)) AS position
    FROM (
        SELECT *, true AS is_layer FROM owned
        UNION ALL BY NAME
        SELECT * FROM covered WHERE end_ns > start_ns
    ) o
    ASOF LEFT JOIN slice b
        ON b.trace_id = o.trace_id AND b.process = o.process AND o.start_ns >= b.at_ns
    ASOF JOIN slice e
        ON e.trace_id = o.trace_id AND e.process = o.process AND o.end_ns > e.at_ns
),
told AS (
    SELECT p.trace_id, p.process, p.position, p.is_layer, p.layer, p.layer_evidence, p.phase,
        sum(least(p.end_ns, s.end_ns) - greatest(p.start_ns, s.at_ns))::BIGINT AS host_ns
    FROM placed p
    JOIN slice s
        ON  s.trace_id = p.trace_id AND s.process = p.process AND s.position = p.position
        AND s.counts
    GROUP BY ALL
),
by_slice AS (
    SELECT s.trace_id, s.process, s.iteration, t.layer, t.layer_evidence,
        coalesce(t.phase, w.driver_phase) AS phase, t.host_ns
    FROM told t
    JOIN slice s USING (trace_id, process, position)
    LEFT JOIN window_phase w USING (trace_id, process, position)
    WHERE t.is_layer AND s.counts
    UNION ALL
    SELECT s.trace_id, s.process, s.iteration, NULL, NULL, w.phase,
        s.end_ns - s.at_ns - coalesce(t.host_ns, 0)
    FROM slice s
    LEFT JOIN told t
        ON  t.trace_id = s.trace_id AND t.process = s.process AND t.position = s.position
        AND NOT t.is_layer
    LEFT JOIN window_phase w
        ON w.trace_id = s.trace_id AND w.process = s.process AND w.position = s.position
    WHERE s.counts
)
SELECT trace_id, nullif(process, -1) AS process_id, iteration, layer, layer_evidence, phase,
    sum(host_ns)::BIGINT AS host_ns
FROM by_slice
WHERE host_ns > 0
GROUP BY ALL
