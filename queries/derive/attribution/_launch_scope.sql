/*
title    = "Scope of each launch"
question = "In which layer, phase and iteration was each launch made?"
source   = """an operation belongs to a range if its launching call is inside it on the same thread;
    backward operations come from the autograd thread"""
grain    = "launch"
needs    = ["_launch_attribution", "trace"]
optional = ["annotation_semantics", "_sequence_layer", "_autograd_thread", "_launch_by_time"]
returns = [
    "trace_id", "api_call_id", "process_id", "thread_id", "start_ns", "end_ns", "layer",
    "layer_evidence", "phase", "iteration", "evidence",
]
[columns]
layer = "layer that owns the launch; NULL when unknown"
layer_evidence = """nvtx (a range of the layer around the launch), nvtx backward (a backward range);
    from PyTorch's profiler torch module, torch op, torch range (record_function), with backward the
    same; sequence (autograd sequence number); NULL without a layer"""
phase = "data, forward, loss, backward, optimizer or communication; NULL when unknown"
iteration = "number of the iteration; NULL outside iterations"
evidence = """how the iteration was found: nvtx or torch range (it encloses the launch on the same
    thread), time (another thread launched during the iteration), anchor kernel (_iteration_anchor);
    NULL outside iterations"""
*/
SELECT l.trace_id, l.api_call_id, l.process_id, l.thread_id, l.start_ns, l.end_ns,
    -- Nothing shows which operators and modules a graph of a PyTorch trace contains.
    CASE WHEN l.is_graph_launch AND t.tool = 'torch' THEN NULL
         WHEN m.layer_kind IN ('convention', 'stack', 'plain') THEN m.layer
         ELSE coalesce(b.layer, m.layer) END AS layer,
    CASE
        WHEN l.is_graph_launch AND t.tool = 'torch' OR coalesce(m.layer, b.layer) IS NULL THEN NULL
        WHEN m.layer_kind IN ('convention', 'stack', 'plain') OR b.layer IS NULL
            THEN CASE WHEN l.is_backward THEN m.origin || ' backward' ELSE m.origin END
        ELSE 'sequence'
    END AS layer_evidence,
    -- Strongest evidence first.
    coalesce(
        l.library_phase,
        CASE WHEN l.is_backward THEN 'backward' END,
        l.phase,
        CASE WHEN l.is_forward THEN 'forward' END,
        CASE WHEN a.thread_id IS NOT NULL THEN 'backward' END,
        bt.phase) AS phase,
    coalesce(l.iteration, bt.iteration) AS iteration,
    CASE
        WHEN l.iteration IS NULL THEN bt.evidence WHEN t.tool = 'torch' THEN 'torch range'
        ELSE 'nvtx'
    END AS evidence
FROM _launch_attribution l
JOIN trace t ON t.trace_id = l.trace_id
LEFT JOIN (FROM annotation_semantics WHERE layer_order IS NOT NULL) m
    ON m.trace_id = l.trace_id AND m.layer_order = l.layer_order
-- A backward operator belongs to the layer of the forward operator with its sequence number.
LEFT JOIN _sequence_layer b ON b.trace_id = l.trace_id AND b.backward_position = l.backward_position
LEFT JOIN _launch_by_time bt ON bt.trace_id = l.trace_id AND bt.api_call_id = l.api_call_id
LEFT JOIN _autograd_thread a
    ON  a.trace_id = l.trace_id AND a.process_id IS NOT DISTINCT FROM l.process_id
    AND a.thread_id = l.thread_id
