/*
title    = "What each NVTX range means"
question = "Which ranges are iterations, phases and layers?"
grain    = "one NVTX range that says something about what is in it: an iteration, a phase, a layer that may own, an operator of the backward pass or with a sequence number"
needs    = ["_range_role", "_layer_owner", "_user_annotation", "_annotation_role"]
[columns.trace_id]
doc = "the trace"
[columns.annotation_id]
doc = "the range"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.stays]
doc = "the thread that opened it also closed it, as far as is known: it may hold launches"
[columns.domain_id]
doc = "NVTX domain number"
[columns.kind]
doc = "push_pop or start_end"
[columns.start_ns]
unit = "ns"
doc = "start"
[columns.end_ns]
unit = "ns"
doc = "end"
[columns.position]
doc = "order in which these ranges began, trace by trace, from 1; of those that begin together in the order of the file"
[columns.is_iteration]
doc = "the range marks an iteration"
[columns.phase]
doc = "phase that the range marks; NULL when it marks none"
[columns.layer]
doc = "layer that the range marks; NULL when it marks none, or only holds others (a training loop, an epoch)"
[columns.layer_kind]
doc = "how the layer was recognised (_annotation_role)"
[columns.layer_order]
doc = "of the layers around a kernel the one with the largest order owns it; NULL without a layer, and for a layer that never owns because another around it always does"
[columns.seq]
doc = "autograd sequence number; NULL without one"
[columns.is_backward]
doc = "a backward operator or the backward of a layer"
*/
-- Sorted rows are numbered as they come, and stay so: whatever builds on them joins and sorts them in
-- two thirds of the time.
WITH
meant AS (
    SELECT m.trace_id, m.annotation_id, m.process_id, m.thread_id, m.stays, m.domain_id, m.kind,
        m.start_ns, m.end_ns, m.is_iteration, r.phase,
        CASE WHEN m.layer_rank IS NOT NULL THEN coalesce(p.name, r.layer) END AS layer,
        CASE WHEN m.layer_rank IS NOT NULL THEN r.layer_kind END AS layer_kind,
        m.layer_rank, m.outermost, o.annotation_id IS NOT NULL AS may_own, r.seq, m.is_backward
    FROM _range_role m
    LEFT JOIN _layer_owner o USING (stack_id, annotation_id)
    JOIN _annotation_role r USING (trace_id, first_range_id)
    LEFT JOIN _user_annotation p
        ON p.stack_id = m.stack_id AND p.first_range_id = m.first_range_id AND r.layer_kind = 'plain'
    WHERE m.tells OR o.annotation_id IS NOT NULL
    ORDER BY m.trace_id, m.start_ns, m.annotation_id
)
SELECT trace_id, annotation_id, process_id, thread_id, stays, domain_id, kind, start_ns, end_ns,
    row_number() OVER () AS position, is_iteration, phase, layer, layer_kind,
    CASE WHEN may_own
         THEN layer_rank * 1_000_000_000_000_000 + CASE WHEN outermost THEN -position ELSE position END
    END::BIGINT AS layer_order,
    seq, is_backward
FROM meant
