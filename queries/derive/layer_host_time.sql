/*
title    = "Host time by layer"
question = "How much time did each layer take on the host, forward and backward, and how much did no layer take?"
source   = "exclusive time: at every moment of a thread the layer that would own a kernel launched then (launch_scope) owns the time"
grain    = "one layer, phase and iteration of the analysis window of a process that marks layers; layer NULL for the time that no layer of any thread owns"
needs    = ["nvtx_meaning", "host_window"]
optional = ["sequence_layer", "thread"]
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
marked AS (
    SELECT *, coalesce(process_id, -1) AS process
    FROM nvtx_meaning WHERE layer IS NOT NULL OR phase IS NOT NULL OR is_backward
),
cut AS (
    SELECT trace_id, process, unnest([start_ns, end_ns]) AS at_ns FROM span
    UNION
    SELECT trace_id, process, unnest([start_ns, end_ns]) FROM marked
),
-- Between two cuts no range begins or ends. Position: how many slices of the window came before.
slice AS (
    SELECT c.trace_id, c.process, c.at_ns, lead(c.at_ns) OVER in_process - c.at_ns AS length_ns,
        s.iteration, s.thread_id AS driver_id, coalesce(c.at_ns < s.end_ns, false) AS counts,
        (sum(counts::BIGINT) OVER in_process - counts::BIGINT)::BIGINT AS position
    FROM cut c
    ASOF LEFT JOIN span s
        ON s.trace_id = c.trace_id AND s.process = c.process AND c.at_ns >= s.start_ns
    WINDOW in_process AS (PARTITION BY c.trace_id, c.process ORDER BY c.at_ns)
),
-- Forward operators are those whose nodes backward operators run; threads that run nothing but
-- backward operators are autograd's.
forward AS (
    SELECT DISTINCT s.trace_id, s.forward_range_id AS nvtx_range_id
    FROM sequence_layer s
    JOIN nvtx_meaning m ON m.trace_id = s.trace_id AND m.nvtx_range_id = s.forward_range_id
    WHERE m.seq IS NOT NULL OR m.layer_kind IN ('stack', 'module')
),
backward AS (
    SELECT trace_id, backward_range_id, any_value(layer) AS layer FROM sequence_layer GROUP BY ALL
),
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
placed AS (
    SELECT m.*, f.nvtx_range_id IS NOT NULL AS is_forward,
        unnest(range(b.position, e.position)) AS position
    FROM marked m
    JOIN slice b ON b.trace_id = m.trace_id AND b.process = m.process AND b.at_ns = m.start_ns
    JOIN slice e ON e.trace_id = m.trace_id AND e.process = m.process AND e.at_ns = m.end_ns
    LEFT JOIN forward f ON f.trace_id = m.trace_id AND f.nvtx_range_id = m.nvtx_range_id
    WHERE e.position > b.position
),
-- What a thread's ranges say of a slice, as launch_scope's `own` says it of a launch.
own AS (
    SELECT trace_id, process, position, thread_id,
        arg_max(layer, layer_order) FILTER (layer IS NOT NULL) AS layer,
        arg_max(layer_kind, layer_order) FILTER (layer IS NOT NULL) AS layer_kind,
        arg_max(phase, {'at': start_ns, 'tie': nvtx_range_id}) FILTER (phase IS NOT NULL) AS phase,
        arg_max(nvtx_range_id, {'at': start_ns, 'tie': nvtx_range_id})
            FILTER (is_backward AND seq IS NOT NULL) AS backward_range_id,
        bool_or(is_backward) AS is_backward, bool_or(is_forward) AS is_forward
    FROM placed GROUP BY ALL
),
window_phase AS (
    SELECT o.trace_id, o.process, o.position,
        arg_max(o.phase, {'drives': o.thread_id = s.driver_id, 'thread': o.thread_id}) AS phase,
        any_value(o.phase) FILTER (o.thread_id = s.driver_id) AS driver_phase
    FROM own o
    JOIN slice s USING (trace_id, process, position)
    WHERE s.counts AND o.phase IS NOT NULL
    GROUP BY ALL
),
owned AS (
    SELECT o.trace_id, o.process, o.position,
        CASE WHEN o.layer_kind IN ('convention', 'stack', 'plain') THEN o.layer
             ELSE coalesce(b.layer, o.layer) END AS layer,
        CASE
            WHEN o.layer_kind IN ('convention', 'stack', 'plain') OR b.layer IS NULL
                THEN CASE WHEN o.is_backward THEN 'nvtx backward' ELSE 'nvtx' END
            ELSE 'sequence'
        END AS layer_evidence,
        coalesce(
            CASE WHEN o.is_backward THEN 'backward' END,
            o.phase,
            CASE WHEN o.is_forward THEN 'forward' END,
            CASE WHEN a.thread_id IS NOT NULL THEN 'backward' END,
            p.driver_phase) AS phase
    FROM own o
    LEFT JOIN backward b ON b.trace_id = o.trace_id AND b.backward_range_id = o.backward_range_id
    LEFT JOIN autograd a
        ON  a.trace_id = o.trace_id AND coalesce(a.process_id, -1) = o.process
        AND a.thread_id = o.thread_id
    LEFT JOIN window_phase p
        ON p.trace_id = o.trace_id AND p.process = o.process AND p.position = o.position
    WHERE coalesce(o.layer, b.layer) IS NOT NULL
)
SELECT s.trace_id, nullif(s.process, -1) AS process_id, s.iteration, o.layer, o.layer_evidence,
    CASE WHEN o.layer IS NULL THEN p.phase ELSE o.phase END AS phase,
    sum(s.length_ns)::BIGINT AS host_ns
FROM slice s
LEFT JOIN owned o USING (trace_id, process, position)
LEFT JOIN window_phase p USING (trace_id, process, position)
WHERE s.counts
GROUP BY ALL
