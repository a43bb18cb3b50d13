/*
title    = "Layers by autograd sequence number"
question = "Which forward operator created each autograd node that a backward operator runs, and in which layer?"
source   = "torch.autograd.profiler.emit_nvtx: a backward operator prints the sequence number of the forward operator that created it"
grain    = "one backward operator, and one range around (or of) the forward operator that created its node"
needs    = ["nvtx_meaning", "nvtx_tree"]
[columns.trace_id]
doc = "the trace"
[columns.backward_range_id]
doc = "range of the backward operator"
[columns.forward_range_id]
doc = "range of the forward operator, or one around it"
[columns.layer]
doc = "layer around the forward operator, the same in all rows of a backward operator; NULL when no range tells"
*/
WITH RECURSIVE
inside_backward AS (
    SELECT trace_id, nvtx_range_id FROM nvtx_meaning WHERE is_backward
    UNION
    SELECT t.trace_id, t.nvtx_range_id
    FROM inside_backward b
    JOIN nvtx_tree t ON t.trace_id = b.trace_id AND t.parent_id = b.nvtx_range_id
),
-- Old versions print 0 for everything that a backward operator calls.
numbered AS (
    SELECT m.trace_id, coalesce(m.process_id, -1) AS process_id, m.seq, m.nvtx_range_id, m.start_ns,
        m.is_backward
    FROM nvtx_meaning m
    LEFT JOIN inside_backward i USING (trace_id, nvtx_range_id)
    WHERE m.seq > 0 OR (m.seq = 0 AND (m.is_backward OR i.nvtx_range_id IS NULL))
),
-- Operators that create no node print the number of the next one; the last to begin is the creator.
created AS (
    SELECT b.trace_id, b.nvtx_range_id AS backward_range_id, f.nvtx_range_id AS forward_range_id
    FROM (SELECT * FROM numbered WHERE is_backward) b
    ASOF JOIN (SELECT * FROM numbered WHERE NOT is_backward) f
        ON  f.trace_id = b.trace_id AND f.process_id = b.process_id AND f.seq = b.seq
        AND b.start_ns >= f.start_ns
),
chain AS (
    SELECT trace_id, backward_range_id, forward_range_id FROM created
    UNION ALL
    SELECT c.trace_id, c.backward_range_id, t.parent_id
    FROM chain c
    JOIN nvtx_tree t ON t.trace_id = c.trace_id AND t.nvtx_range_id = c.forward_range_id
    WHERE t.parent_id IS NOT NULL
)
SELECT c.trace_id, c.backward_range_id, c.forward_range_id,
    arg_max(m.layer, m.layer_order) FILTER (m.layer IS NOT NULL AND NOT m.is_backward)
        OVER (PARTITION BY c.trace_id, c.backward_range_id) AS layer
FROM chain c
JOIN nvtx_meaning m ON m.trace_id = c.trace_id AND m.nvtx_range_id = c.forward_range_id
