/*
title    = "Forward operators"
question = """Which operators are part of the forward pass, because a backward operator runs a node
    created inside them?"""
source   = "autograd sequence numbers (_sequence_layer)"
grain    = "range of an operator or of a call"
needs    = ["_sequence_layer", "annotation_semantics"]
returns = ["trace_id", "annotation_id"]
*/
-- In stack order, the contents of a range follow it: it contains a creator of a node if and only if
-- the next creator starts before the range ends.
WITH
creator AS (SELECT DISTINCT trace_id, forward_range_id AS annotation_id FROM _sequence_layer),
candidate AS (
    SELECT m.trace_id, m.annotation_id, c.annotation_id IS NOT NULL AS is_creator,
        m.kind = 'push_pop'
            AND min(m.start_ns) FILTER (c.annotation_id IS NOT NULL) OVER later < m.end_ns
            AS holds_creator
    FROM annotation_semantics m
    LEFT JOIN creator c USING (trace_id, annotation_id)
    WHERE m.seq IS NOT NULL OR m.layer_kind IN ('stack', 'module')
    WINDOW later AS (
        PARTITION BY m.trace_id, m.process_id, m.thread_id, m.domain_id, m.kind
        ORDER BY m.start_ns, m.end_ns = m.start_ns, m.end_ns DESC, m.annotation_id
        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
)
SELECT trace_id, annotation_id FROM candidate WHERE is_creator OR holds_creator
