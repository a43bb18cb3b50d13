/*
title    = "Scope of each launch"
question = "In which range, layer, phase and iteration was each launch made?"
source   = "an operation belongs to a range if its launching call lies inside it on the same thread; backward operations come from the autograd thread"
grain    = "one launch"
needs    = ["launch"]
optional = ["launch_range", "nvtx_range", "nvtx_role", "nvtx_meaning", "sequence_layer", "iteration_mark", "kernel_period", "thread"]
[columns.trace_id]
doc = "the trace"
[columns.api_call_id]
doc = "the launch"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.start_ns]
unit = "ns"
doc = "start of the call"
[columns.end_ns]
unit = "ns"
doc = "end of the call"
[columns.nvtx_range_id]
doc = "innermost range around it on its thread; NULL when there is none"
[columns.layer]
doc = "layer that owns it; NULL when no range tells"
[columns.layer_evidence]
doc = "nvtx (a layer's range around the launch), nvtx backward (a layer's backward range), sequence (autograd sequence number); NULL without a layer"
[columns.phase]
doc = "data, forward, loss, backward, optimizer, communication; NULL when nothing tells"
[columns.iteration]
doc = "number of the iteration; NULL outside iterations"
[columns.evidence]
doc = "how the iteration was found: nvtx (its range is around the launch on the same thread), time (another thread launched while the iteration's thread was in it), kernel order (the kernels' period); NULL outside iterations"
*/
WITH
own AS (
    SELECT r.trace_id, r.api_call_id,
        arg_max(m.nvtx_range_id, {'at': m.start_ns, 'tie': m.nvtx_range_id}) AS nvtx_range_id,
        arg_max(m.layer, m.layer_order) FILTER (m.layer IS NOT NULL) AS layer,
        arg_max(m.layer_kind, m.layer_order) FILTER (m.layer IS NOT NULL) AS layer_kind,
        arg_max(m.phase, {'at': m.start_ns, 'tie': m.nvtx_range_id}) FILTER (m.phase IS NOT NULL) AS phase,
        arg_max(m.nvtx_range_id, {'at': m.start_ns, 'tie': m.nvtx_range_id})
            FILTER (m.is_backward AND m.seq IS NOT NULL) AS backward_range_id,
        bool_or(m.is_backward) AS is_backward,
        arg_max(i.iteration, m.start_ns) FILTER (i.iteration IS NOT NULL) AS iteration
    FROM launch_range r
    JOIN nvtx_meaning m USING (trace_id, nvtx_range_id)
    LEFT JOIN iteration_mark i USING (trace_id, nvtx_range_id)
    GROUP BY ALL
),
-- What a library's own range says: DALI's kernels load data, whatever the program does meanwhile.
library AS (
    SELECT r.trace_id, r.api_call_id, any_value(m.phase) AS phase
    FROM launch_range r
    JOIN nvtx_range n USING (trace_id, nvtx_range_id)
    JOIN nvtx_role m
        ON m.trace_id = n.trace_id AND m.domain IS NOT DISTINCT FROM n.domain AND m.text = n.text
    WHERE m.is_library AND m.phase IS NOT NULL
    GROUP BY ALL
),
-- A backward operator takes the layer of the forward operator with its sequence number, …
backward AS (
    SELECT trace_id, backward_range_id, any_value(layer) AS layer FROM sequence_layer GROUP BY ALL
),
-- … and thereby tells which operators are the forward pass.
forward AS (
    SELECT DISTINCT r.trace_id, r.api_call_id
    FROM (SELECT DISTINCT trace_id, forward_range_id FROM sequence_layer) s
    JOIN nvtx_meaning m ON m.trace_id = s.trace_id AND m.nvtx_range_id = s.forward_range_id
    JOIN launch_range r ON r.trace_id = s.trace_id AND r.nvtx_range_id = s.forward_range_id
    WHERE m.seq IS NOT NULL OR m.layer_kind IN ('stack', 'module')
),
-- Threads that run backward operators and never a forward one whose node is used.
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
boundary AS (
    SELECT trace_id, process_id, iteration, start_ns, end_ns, 'time' AS evidence FROM iteration_mark
    UNION ALL
    SELECT trace_id, process_id, iteration, start_ns, end_ns, 'kernel order' FROM kernel_period
),
by_time AS (
    SELECT l.trace_id, l.api_call_id, b.iteration, b.evidence, b.start_ns
    FROM launch l
    ASOF JOIN boundary b
        ON  b.trace_id = l.trace_id AND b.process_id IS NOT DISTINCT FROM l.process_id
        AND l.start_ns >= b.start_ns
    WHERE l.start_ns < b.end_ns
),
-- The phase that the iteration's own thread was in when another thread launched. Between its
-- forward pass and what it marks next it waits for the backward pass.
phase_range AS (
    SELECT m.trace_id, m.process_id, m.thread_id, m.phase, m.start_ns, m.end_ns
    FROM nvtx_meaning m
    JOIN (SELECT DISTINCT trace_id, process_id, thread_id FROM iteration_mark) d
        ON  d.trace_id = m.trace_id AND d.process_id IS NOT DISTINCT FROM m.process_id
        AND d.thread_id IS NOT DISTINCT FROM m.thread_id
    WHERE m.phase IS NOT NULL
),
phase_by_time AS (
    SELECT l.trace_id, l.api_call_id,
        CASE
            WHEN l.start_ns < p.end_ns THEN p.phase
            WHEN p.phase IN ('forward', 'loss') AND p.start_ns >= i.start_ns THEN 'backward'
        END AS phase
    FROM launch l
    ASOF JOIN phase_range p
        ON  p.trace_id = l.trace_id AND p.process_id IS NOT DISTINCT FROM l.process_id
        AND l.start_ns >= p.start_ns
    JOIN by_time i ON i.trace_id = l.trace_id AND i.api_call_id = l.api_call_id
    WHERE l.thread_id <> p.thread_id
)
SELECT l.trace_id, l.api_call_id, l.process_id, l.thread_id, l.start_ns, l.end_ns,
    o.nvtx_range_id,
    CASE WHEN o.layer_kind IN ('convention', 'stack', 'plain') THEN o.layer
         ELSE coalesce(b.layer, o.layer) END AS layer,
    CASE
        WHEN coalesce(o.layer, b.layer) IS NULL THEN NULL
        WHEN o.layer_kind IN ('convention', 'stack', 'plain') OR b.layer IS NULL
            THEN CASE WHEN o.is_backward THEN 'nvtx backward' ELSE 'nvtx' END
        ELSE 'sequence'
    END AS layer_evidence,
    coalesce(
        y.phase,
        CASE WHEN o.is_backward THEN 'backward' END,
        o.phase,
        CASE WHEN f.api_call_id IS NOT NULL THEN 'forward' END,
        CASE WHEN a.thread_id IS NOT NULL THEN 'backward' END,
        pt.phase) AS phase,
    coalesce(o.iteration, bt.iteration) AS iteration,
    CASE WHEN o.iteration IS NOT NULL THEN 'nvtx' ELSE bt.evidence END AS evidence
FROM launch l
LEFT JOIN own o USING (trace_id, api_call_id)
LEFT JOIN library y USING (trace_id, api_call_id)
LEFT JOIN backward b ON b.trace_id = o.trace_id AND b.backward_range_id = o.backward_range_id
LEFT JOIN forward f USING (trace_id, api_call_id)
LEFT JOIN by_time bt USING (trace_id, api_call_id)
LEFT JOIN phase_by_time pt USING (trace_id, api_call_id)
LEFT JOIN autograd a
    ON  a.trace_id = l.trace_id AND a.process_id IS NOT DISTINCT FROM l.process_id
    AND a.thread_id = l.thread_id
