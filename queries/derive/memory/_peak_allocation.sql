/*
title    = "Allocations live at the peak"
question = "Which allocations are live at the peak of their memory space?"
grain    = "allocation live at the peak"
needs    = ["allocation", "peak_memory"]
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.process_id]
doc = "as allocation.process_id"
[columns.device_id]
doc = "as allocation.device_id"
[columns.allocator]
doc = "as allocation.allocator"
[columns.address]
doc = "address"
[columns.born_sequence]
doc = "as allocation.born_sequence"
[columns.class]
doc = "class of the bytes"
[columns.group_name]
doc = "as allocation.group_name"
[columns.layer]
doc = "as allocation.layer"
[columns.operator]
doc = "as allocation.operator"
[columns.stack_id]
doc = "as allocation.stack_id"
[columns.evidence]
doc = "as allocation.evidence"
[columns.requested_bytes]
unit = "byte"
doc = "requested size"
*/
SELECT a.trace_id, a.space, a.process_id, a.device_id, a.allocator, a.address, a.born_sequence,
    a.class, a.group_name, a.layer, a.operator, a.stack_id, a.evidence, a.requested_bytes
FROM allocation AS a
JOIN peak_memory AS p USING (space)
WHERE (a.born_sequence IS NULL OR a.born_sequence <= p.sequence)
    AND (a.died_sequence IS NULL OR a.died_sequence > coalesce(p.sequence, -1))
