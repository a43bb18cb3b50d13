/*
title    = "Roles of the ranges around each launch"
question = """Which layer, phase, backward operator and iteration do the ranges around each launch
    mark?"""
source   = "an operation belongs to a range if its launching call is inside it on the same thread"
grain    = "launch"
needs    = ["launch"]
optional = [
    "_annotation_launch_interval", "annotation_semantics", "_forward_operator",
    "_iteration_boundary",
]
returns = [
    "trace_id", "api_call_id", "process_id", "thread_id", "start_ns", "end_ns", "layer_order",
    "phase", "backward_position", "is_backward", "is_forward", "iteration", "library_phase",
    "is_graph_launch",
]
[columns]
api_call_id = "the launch"
layer_order = """layer_order of the layer that owns the launch (annotation_semantics); NULL without
    a layer"""
phase = "phase marked by the innermost range with a phase; NULL without one"
backward_position = """position of the innermost backward operator with a sequence number
    (annotation_semantics); NULL without one"""
is_backward = "true if a range is backward; NULL without ranges with a role"
is_forward = """true if a range is a forward operator (_forward_operator); NULL without ranges with
    a role"""
iteration = "number of the iteration whose range encloses the launch; NULL outside such ranges"
library_phase = "phase marked by a range of a library (DALI: data); NULL without one"
is_graph_launch = "true if the call launches a graph of CUDA or HIP"
*/
WITH
contained AS (
    SELECT r.host_thread, unnest(generate_series(r.first_position, r.last_position)) AS position,
        m.layer_order,
        CASE WHEN m.phase IS NOT NULL THEN m.position END AS phase_position,
        -- Enumerations instead of text: `own` takes a third of the time and does not spill.
        CAST(m.phase AS ENUM('data', 'forward', 'loss', 'backward', 'optimizer', 'communication'))
            AS phase,
        CASE WHEN m.is_backward AND m.seq IS NOT NULL THEN m.position END AS backward_position,
        m.is_backward, f.annotation_id IS NOT NULL AS is_forward, i.iteration,
        -- Ranges of libraries win: kernels of DALI load data, whatever phase the program marks.
        CAST(r.library_phase
            AS ENUM('data', 'forward', 'loss', 'backward', 'optimizer', 'communication'))
            AS library_phase
    FROM _annotation_launch_interval r
    LEFT JOIN annotation_semantics m USING (trace_id, annotation_id)
    LEFT JOIN _forward_operator f USING (trace_id, annotation_id)
    LEFT JOIN _iteration_boundary i USING (trace_id, annotation_id)
),
own AS (
    SELECT host_thread, position, max(layer_order) AS layer_order,
        arg_max(phase, phase_position) AS phase, max(backward_position) AS backward_position,
        bool_or(is_backward) AS is_backward, bool_or(is_forward) AS is_forward,
        max(iteration) AS iteration, min(library_phase) AS library_phase
    FROM contained GROUP BY ALL
)
SELECT l.trace_id, l.api_call_id, l.process_id, l.thread_id, l.start_ns, l.end_ns, o.layer_order,
    o.phase::VARCHAR AS phase, o.backward_position, o.is_backward, o.is_forward, o.iteration,
    o.library_phase::VARCHAR AS library_phase,
    contains(l.name, 'GraphLaunch') AS is_graph_launch
FROM launch l
LEFT JOIN own o ON o.host_thread = l.host_thread AND o.position = l.position
