/*
title    = "What each NVTX range means"
question = "Which ranges are iterations, phases and layers?"
grain    = "one NVTX range that says something about what is in it: an iteration, a phase, a layer that may own, an operator of the backward pass or with a sequence number"
needs    = ["range_role", "layer_owner", "plain_layer", "nvtx_role"]
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
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
doc = "order in which these ranges of the trace began, from 1; of those that begin together in the order of the file"
[columns.is_iteration]
doc = "the range marks an iteration"
[columns.phase]
doc = "phase that the range marks; NULL when it marks none"
[columns.layer]
doc = "layer that the range marks; NULL when it marks none, or only holds others (a training loop, an epoch)"
[columns.layer_kind]
doc = "how the layer was recognised (nvtx_role)"
[columns.layer_order]
doc = "of the layers around a kernel the one with the largest order owns it; NULL without a layer, and for a layer that never owns because another around it always does"
[columns.seq]
doc = "autograd sequence number; NULL without one"
[columns.is_backward]
doc = "a backward operator or the backward of a layer"
*/
WITH
-- What is the same in a whole stack need not be sorted and joined with its ranges.
stack AS MATERIALIZED (
    SELECT stack_id, any_value(process_id) AS process_id, any_value(thread_id) AS thread_id,
        any_value(domain_id) AS domain_id, any_value(kind) AS kind
    FROM range_role GROUP BY stack_id
),
placed AS (
    SELECT m.trace_id, m.stack_id, m.nvtx_range_id, m.first_range_id, m.start_ns, m.end_ns, m.stays,
        m.is_iteration, m.is_backward, m.outermost, m.layer_rank,
        o.nvtx_range_id IS NOT NULL AS may_own,
        row_number() OVER (PARTITION BY m.trace_id ORDER BY m.start_ns, m.nvtx_range_id) AS position
    FROM range_role m
    LEFT JOIN layer_owner o USING (stack_id, nvtx_range_id)
    WHERE m.tells OR o.nvtx_range_id IS NOT NULL
)
SELECT m.trace_id, m.nvtx_range_id, s.process_id, s.thread_id, m.stays, s.domain_id, s.kind,
    m.start_ns, m.end_ns, m.position, m.is_iteration, r.phase,
    CASE WHEN m.layer_rank IS NOT NULL THEN coalesce(p.name, r.layer) END AS layer,
    CASE WHEN m.layer_rank IS NOT NULL THEN r.layer_kind END AS layer_kind,
    CASE WHEN m.may_own
         THEN m.layer_rank * 1_000_000_000_000_000 + CASE WHEN m.outermost THEN -position ELSE position END
    END::BIGINT AS layer_order,
    r.seq, m.is_backward
FROM placed m
LEFT JOIN stack s USING (stack_id)
JOIN nvtx_role r USING (trace_id, first_range_id)
LEFT JOIN plain_layer p
    ON p.stack_id = m.stack_id AND p.first_range_id = m.first_range_id AND r.layer_kind = 'plain'
