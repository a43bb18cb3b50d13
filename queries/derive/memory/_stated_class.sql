/*
title    = "Classes that the source states"
question = "Which class did the framework state for an allocation?"
source   = "the last statement about the address while it is live counts"
grain    = "allocation with a stated class"
needs    = ["_memory_op"]
optional = ["_lifetime"]
[columns.trace_id]
doc = "the trace"
[columns.space]
doc = "key of the memory space"
[columns.born_sequence]
doc = "event of the allocation"
[columns.class]
doc = "class"
[columns.layer]
doc = "layer; NULL without one"
*/
WITH statement AS (
    SELECT trace_id, space, sequence AS born_sequence, sequence, class, layer
    FROM _memory_op WHERE operation = 'allocate' AND class IS NOT NULL
    UNION ALL
    SELECT e.trace_id, e.space, l.born_sequence, e.sequence, e.class, e.layer
    FROM (FROM _memory_op WHERE operation = 'classify' AND class IS NOT NULL) AS e
    ASOF JOIN (FROM _lifetime WHERE born_sequence IS NOT NULL) AS l
        ON l.trace_id = e.trace_id
        AND l.space = e.space
        AND l.address = e.address
        AND e.sequence >= l.born_sequence
    WHERE l.died_sequence IS NULL OR l.died_sequence > e.sequence
)
SELECT trace_id, space, born_sequence, arg_max(class, sequence) AS class,
    arg_max(layer, sequence) FILTER (layer IS NOT NULL) AS layer
FROM statement
GROUP BY trace_id, space, born_sequence
