/*
title    = "Roles of NVTX ranges"
question = "Which ranges are iterations, phases and layers?"
grain    = """NVTX range with a role: an iteration, a phase, a layer that may own kernels, an
    operator of the backward pass or with a sequence number"""
needs    = ["_range_role", "_layer_owner", "_user_annotation", "_annotation_role"]
returns = [
    "trace_id", "annotation_id", "process_id", "thread_id", "stays", "domain_id", "kind",
    "start_ns", "end_ns", "position", "is_iteration", "phase", "layer", "layer_kind", "origin",
    "layer_order", "seq", "is_backward",
]
[columns]
position = """order of these ranges by start, per trace, from 1; ranges that start together are in
    the order of the file"""
is_iteration = "true if the range marks an iteration"
phase = "phase marked by the range; NULL if it marks none"
layer = """layer marked by the range; NULL if it marks none, or is a container of layers (a training
    loop, an epoch)"""
layer_kind = "how the layer was recognized (_annotation_role)"
layer_order = """order of ownership: of the layers around a kernel, the one with the largest order
    owns it; NULL without a layer, and for a layer inside one that always wins"""
seq = "autograd sequence number; NULL without one"
*/
-- Rows are sorted by start before they are numbered. Joins and sorts of the queries that use them
-- then take two thirds of the time.
WITH
meant AS (
    SELECT m.trace_id, m.annotation_id, m.process_id, m.thread_id, m.stays, m.domain_id, m.kind,
        m.start_ns, m.end_ns, m.is_iteration, r.phase,
        CASE WHEN m.layer_rank IS NOT NULL THEN coalesce(p.name, r.layer) END AS layer,
        CASE WHEN m.layer_rank IS NOT NULL THEN r.layer_kind END AS layer_kind,
        r.origin, m.layer_rank,
        m.outermost, o.annotation_id IS NOT NULL AS may_own, r.seq, m.is_backward
    FROM _range_role m
    LEFT JOIN _layer_owner o USING (stack_id, annotation_id)
    JOIN _annotation_role r USING (trace_id, first_range_id)
    LEFT JOIN _user_annotation p
        ON  p.stack_id = m.stack_id AND p.first_range_id = m.first_range_id
        AND r.layer_kind = 'plain'
    WHERE m.is_explicit OR o.annotation_id IS NOT NULL
    ORDER BY m.trace_id, m.start_ns, m.annotation_id
)
SELECT trace_id, annotation_id, process_id, thread_id, stays, domain_id, kind, start_ns, end_ns,
    row_number() OVER () AS position, is_iteration, phase, layer, layer_kind, origin,
    CASE WHEN may_own
         -- Rank first, then position: the factor exceeds any position.
         THEN layer_rank * 1_000_000_000_000_000
             + CASE WHEN outermost THEN -position ELSE position END
    END::BIGINT AS layer_order,
    seq, is_backward
FROM meant
