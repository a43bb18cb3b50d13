/*
title    = "Classes that the source states later"
question = "Which class did the framework state for an allocation after it was made?"
source   = "the last statement about the address while it is live counts"
grain    = "allocation with such a statement"
needs    = ["memory_event"]
optional = ["_lifetime"]
returns = ["trace_id", "space", "born_sequence", "class", "layer"]
[columns]
born_sequence = "event of the allocation"
class = "class"
layer = "layer; NULL without one"
*/
SELECT l.trace_id, l.space, l.born_sequence, arg_max(e.class, e.sequence) AS class,
    arg_max(e.layer, e.sequence) AS layer  -- the last one that is not NULL
FROM (
    SELECT *, hash(trace_id, process_id, device_id, allocator, memory_kind) AS space
    FROM memory_event WHERE operation = 'classify' AND class IS NOT NULL
) AS e
ASOF JOIN (FROM _lifetime WHERE born_sequence IS NOT NULL) AS l
    ON l.space = e.space AND l.address = e.address AND e.sequence >= l.born_sequence
WHERE l.died_sequence IS NULL OR l.died_sequence > e.sequence
GROUP BY l.trace_id, l.space, l.born_sequence
