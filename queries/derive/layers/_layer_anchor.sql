/*
title    = "Time buckets of layers that always own"
question = """When is a layer open that owns everything that operators of the framework launch
    inside it?"""
source   = "of the layers around a launch, the best kind owns it (_annotation_role)"
grain    = """range of a layer of the best kinds, up to 16 times as long as the median one, and time
    bucket in which it is open"""
needs    = ["_annotation_role"]
optional = ["annotation_range", "trace"]
[columns]
stack_id = "the stack (_range_role)"
moment = "number of the time bucket: start ÷ moment_ns, rounded down"
moment_ns = "length of a time bucket, equal in all rows: median duration of the layers"
start_ns = "start of the range"
end_ns = "end of the range"
*/
-- Ranges inside a layer of the best kinds own nothing, and they are most of the ranges of a
-- framework, so _range_role and _layer_owner drop them before sorting. They are found by the time
-- buckets in which layers are open. Layers over 16 times as long as the median would be in too many
-- buckets; ranges inside them only are sorted like the others.
WITH
marked AS MATERIALIZED (
    SELECT hash(r.trace_id, r.process_id, r.thread_id, r.domain_id, r.kind) AS stack_id,
        r.start_ns, r.end_ns, m.is_backward,
        -- Without ranges that the end of the trace may have closed (_range_role).
        coalesce(m.layer_rank >= 4, false)
            AND (r.end_thread_id IS NULL OR r.end_thread_id IS NOT DISTINCT FROM r.thread_id)
            AND NOT (m.outermost AND (r.is_open OR r.end_ns IS NOT DISTINCT FROM t.end_ns))
            AS is_best,
        m.seq IS NOT NULL AND NOT m.is_backward AS is_numbered
    FROM annotation_range r
    JOIN _annotation_role m
        ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain AND m.text = r.text
    LEFT JOIN trace t ON t.trace_id = r.trace_id
    WHERE NOT m.is_library AND (m.layer_rank >= 4 OR m.seq IS NOT NULL AND NOT m.is_backward)
),
-- Backward ranges do not count if their stack has forward operators, whose layers may win
-- (_sequence_layer).
best AS MATERIALIZED (
    SELECT stack_id, start_ns, end_ns
    FROM marked
    WHERE is_best
      AND NOT (is_backward AND stack_id IN (SELECT stack_id FROM marked WHERE is_numbered))
),
usual AS MATERIALIZED (
    SELECT greatest(median(end_ns - start_ns)::BIGINT, 1) AS moment_ns FROM best
)
SELECT stack_id, unnest(range(start_ns // moment_ns, end_ns // moment_ns + 1)) AS moment, moment_ns,
    start_ns, end_ns
FROM best, usual
WHERE end_ns - start_ns <= 16 * moment_ns
