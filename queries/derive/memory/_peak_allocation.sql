/*
title    = "Allocations live at the peak"
question = "Which allocations are live at the peak of their memory space?"
grain    = "allocation live at the peak"
needs    = ["allocation", "peak_memory"]
returns = [
    "trace_id", "space", "process_id", "device_id", "allocator", "address", "born_sequence",
    "died_sequence", "class", "group_name", "phase", "layer", "operator", "shape", "stack_id",
    "evidence", "requested_bytes",
]
[columns]
address = "address"
class = "class of the bytes"
*/
SELECT a.trace_id, a.space, a.process_id, a.device_id, a.allocator, a.address, a.born_sequence,
    a.died_sequence, a.class, a.group_name, a.phase, a.layer, a.operator, a.shape, a.stack_id,
    a.evidence, a.requested_bytes
FROM allocation AS a
JOIN peak_memory AS p USING (space)
WHERE (a.born_sequence IS NULL OR a.born_sequence <= p.sequence)
    AND (a.died_sequence IS NULL OR a.died_sequence > coalesce(p.sequence, -1))
