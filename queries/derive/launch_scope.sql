/*
title    = "Scope of each launch"
question = "In which range, layer, phase and iteration was each launch made?"
source   = "an operation belongs to a range if its launching call lies inside it on the same thread; backward operations come from the autograd thread"
grain    = "one launch"
needs    = ["launch"]
optional = ["meaning_run", "nvtx_meaning", "sequence_layer", "forward_operator", "iteration_mark", "kernel_period", "thread"]
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
-- Ranges with the same launches say one thing together, and each launch is in few such runs.
run AS (
    SELECT r.trace_id, r.process_id, r.thread_id, r.first_position, r.last_position,
        max(m.layer_order) AS layer_order,
        max(m.position) FILTER (m.phase IS NOT NULL) AS phase_position,
        max(m.position) FILTER (m.is_backward AND m.seq IS NOT NULL) AS backward_position,
        bool_or(m.is_backward) AS is_backward,
        bool_or(f.nvtx_range_id IS NOT NULL) AS is_forward,
        max(i.iteration) AS iteration,
        -- a library's own range says it: DALI's kernels load data, whatever the program does meanwhile
        min(r.library_phase) AS library_phase
    FROM meaning_run r
    LEFT JOIN nvtx_meaning m USING (trace_id, nvtx_range_id)
    LEFT JOIN forward_operator f USING (trace_id, nvtx_range_id)
    LEFT JOIN iteration_mark i USING (trace_id, nvtx_range_id)
    GROUP BY ALL
),
held AS (
    SELECT * EXCLUDE (first_position, last_position),
        unnest(generate_series(first_position, last_position)) AS position
    FROM run
),
own AS (
    SELECT trace_id, process_id, thread_id, position, max(layer_order) AS layer_order,
        max(phase_position) AS phase_position, max(backward_position) AS backward_position,
        bool_or(is_backward) AS is_backward, bool_or(is_forward) AS is_forward,
        max(iteration) AS iteration, min(library_phase) AS library_phase
    FROM held GROUP BY ALL
),
-- A backward operator takes the layer of the forward operator with its sequence number.
backward AS (
    SELECT m.trace_id, m.position, s.layer
    FROM sequence_layer s
    JOIN nvtx_meaning m ON m.trace_id = s.trace_id AND m.nvtx_range_id = s.backward_range_id
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
    CASE WHEN m.layer_kind IN ('convention', 'stack', 'plain') THEN m.layer
         ELSE coalesce(b.layer, m.layer) END AS layer,
    CASE
        WHEN coalesce(m.layer, b.layer) IS NULL THEN NULL
        WHEN m.layer_kind IN ('convention', 'stack', 'plain') OR b.layer IS NULL
            THEN CASE WHEN o.is_backward THEN 'nvtx backward' ELSE 'nvtx' END
        ELSE 'sequence'
    END AS layer_evidence,
    coalesce(
        o.library_phase,
        CASE WHEN o.is_backward THEN 'backward' END,
        p.phase,
        CASE WHEN o.is_forward THEN 'forward' END,
        CASE WHEN a.thread_id IS NOT NULL THEN 'backward' END,
        pt.phase) AS phase,
    coalesce(o.iteration, bt.iteration) AS iteration,
    CASE WHEN o.iteration IS NOT NULL THEN 'nvtx' ELSE bt.evidence END AS evidence
FROM launch l
LEFT JOIN own o
    ON  o.trace_id = l.trace_id AND o.process_id IS NOT DISTINCT FROM l.process_id
    AND o.thread_id = l.thread_id AND o.position = l.position
LEFT JOIN nvtx_meaning m ON m.trace_id = o.trace_id AND m.layer_order = o.layer_order
LEFT JOIN nvtx_meaning p ON p.trace_id = o.trace_id AND p.position = o.phase_position
LEFT JOIN backward b ON b.trace_id = o.trace_id AND b.position = o.backward_position
LEFT JOIN by_time bt ON bt.trace_id = l.trace_id AND bt.api_call_id = l.api_call_id
LEFT JOIN phase_by_time pt ON pt.trace_id = l.trace_id AND pt.api_call_id = l.api_call_id
LEFT JOIN autograd a
    ON  a.trace_id = l.trace_id AND a.process_id IS NOT DISTINCT FROM l.process_id
    AND a.thread_id = l.thread_id
