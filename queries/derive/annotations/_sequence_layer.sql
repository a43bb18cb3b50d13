/*
title    = "Layers by autograd sequence number"
question = """Which forward operator created the autograd node of each backward operator, and in
    which layer?"""
source   = """torch.autograd.profiler.emit_nvtx: a backward operator prints the sequence number of
    the forward operator that created its node"""
grain    = "backward operator with a known forward operator"
needs    = ["annotation_semantics"]
returns = ["trace_id", "backward_range_id", "backward_position", "forward_range_id", "layer"]
[columns]
backward_range_id = "range of the backward operator"
backward_position = "position of the backward operator (annotation_semantics)"
forward_range_id = "range of the forward operator"
layer = "layer around the forward operator in its NVTX domain; NULL when unknown"
*/
WITH
candidate AS NOT MATERIALIZED (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(thread_id, -1) AS thread_id,
        domain_id, kind, annotation_id, start_ns, end_ns, position, seq, is_backward
    FROM annotation_semantics
    WHERE is_backward OR seq IS NOT NULL
),
-- Old versions of PyTorch print 0 for all operators called by a backward operator; these are not
-- the creators of node 0.
zero AS (
    SELECT trace_id, process_id, thread_id, domain_id, kind
    FROM candidate WHERE seq = 0 AND NOT is_backward GROUP BY ALL
),
called AS (
    SELECT trace_id, annotation_id
    FROM candidate SEMI JOIN zero USING (trace_id, process_id, thread_id, domain_id, kind)
    WHERE kind = 'push_pop' AND (seq = 0 OR is_backward)
    WINDOW earlier AS (
        PARTITION BY trace_id, process_id, thread_id, domain_id
        ORDER BY start_ns, end_ns = start_ns, end_ns DESC, annotation_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    QUALIFY seq = 0 AND NOT is_backward AND max(end_ns) FILTER (is_backward) OVER earlier > start_ns
),
numbered AS NOT MATERIALIZED (
    SELECT * FROM candidate ANTI JOIN called USING (trace_id, annotation_id) WHERE seq >= 0
),
-- Operators that create no node print the number of the next one, so the creator is the last
-- operator with this number to start; if several start together, the last in the file.
created AS MATERIALIZED (
    SELECT b.trace_id, b.annotation_id AS backward_range_id, b.position AS backward_position,
        f.annotation_id AS forward_range_id
    FROM (SELECT * FROM numbered WHERE is_backward) b
    ASOF JOIN (
        SELECT trace_id, process_id, seq, start_ns, max(annotation_id) AS annotation_id
        FROM numbered WHERE NOT is_backward GROUP BY ALL
    ) f
        ON  f.trace_id = b.trace_id AND f.process_id = b.process_id AND f.seq = b.seq
        AND b.start_ns >= f.start_ns
),
creator AS (SELECT DISTINCT trace_id, forward_range_id AS annotation_id FROM created),
-- The creators of a stack are numbered by start. A layer encloses consecutive ones: from the first
-- after its start to the last that starts before its end.
stacked AS (
    SELECT m.trace_id, coalesce(m.process_id, -1) AS process_id,
        coalesce(m.thread_id, -1) AS thread_id,
        m.domain_id, m.annotation_id, m.start_ns, m.end_ns,
        CASE WHEN NOT m.is_backward THEN m.layer_order END AS layer_order,
        c.annotation_id IS NOT NULL AS is_creator,
        count(c.annotation_id) OVER so_far AS creators
    FROM annotation_semantics m
    LEFT JOIN creator c USING (trace_id, annotation_id)
    WHERE m.kind = 'push_pop' AND (m.layer_order IS NOT NULL OR c.annotation_id IS NOT NULL)
    WINDOW so_far AS (
        PARTITION BY m.trace_id, m.process_id, m.thread_id, m.domain_id
        ORDER BY m.start_ns, m.end_ns = m.start_ns, m.end_ns DESC, m.annotation_id
        ROWS UNBOUNDED PRECEDING)
),
last_at AS (
    SELECT trace_id, process_id, thread_id, domain_id, start_ns, max(creators) AS creators
    FROM stacked WHERE is_creator GROUP BY ALL
),
run AS (
    SELECT s.trace_id, s.process_id, s.thread_id, s.domain_id,
        s.creators + (NOT s.is_creator)::INTEGER AS first_creator,
        CASE WHEN s.is_creator THEN greatest(l.creators, s.creators) ELSE l.creators END
            AS last_creator,
        max(s.layer_order) AS layer_order
    FROM stacked s
    ASOF LEFT JOIN last_at l
        ON  l.trace_id = s.trace_id AND l.process_id = s.process_id AND l.thread_id = s.thread_id
        AND l.domain_id = s.domain_id AND s.end_ns > l.start_ns
    WHERE s.layer_order IS NOT NULL
    GROUP BY ALL
),
contained AS (
    SELECT trace_id, process_id, thread_id, domain_id, layer_order,
        unnest(generate_series(first_creator, last_creator)) AS creators
    FROM run WHERE last_creator >= first_creator
),
owned AS (
    SELECT trace_id, process_id, thread_id, domain_id, creators, max(layer_order) AS layer_order
    FROM contained GROUP BY ALL
),
layer_of AS (
    SELECT s.trace_id, s.annotation_id, m.layer
    FROM stacked s
    JOIN owned o USING (trace_id, process_id, thread_id, domain_id, creators)
    JOIN annotation_semantics m ON m.trace_id = o.trace_id AND m.layer_order = o.layer_order
    WHERE s.is_creator
    UNION ALL
    -- start/end ranges do not nest.
    SELECT trace_id, annotation_id, layer FROM annotation_semantics
    WHERE kind <> 'push_pop' AND NOT is_backward AND layer IS NOT NULL
)
SELECT c.trace_id, c.backward_range_id, c.backward_position, c.forward_range_id, l.layer
FROM created c
LEFT JOIN layer_of l ON l.trace_id = c.trace_id AND l.annotation_id = c.forward_range_id
