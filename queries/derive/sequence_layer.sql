/*
title    = "Layers by autograd sequence number"
question = "Which forward layer created the autograd node with this sequence number?"
source   = "torch.autograd.profiler.emit_nvtx: a backward operator prints the sequence number of the forward operator that created it"
grain    = "one autograd sequence number of one process, each time it is used"
needs    = ["nvtx_meaning", "nvtx_tree"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.seq]
doc = "autograd sequence number"
[columns.start_ns]
unit = "ns"
doc = "when the forward operator began"
[columns.layer]
doc = "layer around the forward operator"
*/
WITH RECURSIVE
-- Operators that create no node print the number of the next one; the last to begin is the creator.
forward AS (
    SELECT trace_id, process_id, thread_id, seq, nvtx_range_id, start_ns
    FROM nvtx_meaning
    WHERE seq IS NOT NULL AND NOT is_backward
),
chain AS (
    SELECT trace_id, process_id, seq, start_ns, nvtx_range_id FROM forward
    UNION ALL
    SELECT c.trace_id, c.process_id, c.seq, c.start_ns, t.parent_id
    FROM chain c JOIN nvtx_tree t USING (trace_id, nvtx_range_id)
    WHERE t.parent_id IS NOT NULL
)
SELECT c.trace_id, c.process_id, c.seq, c.start_ns, arg_max(m.layer, m.layer_order) AS layer
FROM chain c JOIN nvtx_meaning m USING (trace_id, nvtx_range_id)
WHERE m.layer IS NOT NULL
GROUP BY ALL
