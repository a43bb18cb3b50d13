/*
title    = "What the text of each range says"
question = "Which range is an iteration, a phase, a layer or an operator by its text alone?"
source   = "_annotation_role"
grain    = "one NVTX range with a text, not of a library, that tells something or is not inside a layer that always owns"
needs    = ["_annotation_role"]
optional = ["annotation_range", "trace", "_layer_anchor", "_user_annotation"]
[columns.trace_id]
doc = "the trace"
[columns.annotation_id]
doc = "the range"
[columns.stack_id]
doc = "number that stands for its trace, process, thread, domain and kind"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
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
[columns.stays]
doc = "the thread that opened it also closed it, as far as is known: it may hold launches"
[columns.first_range_id]
doc = "first range with its text: by it and the trace _annotation_role tells more"
[columns.tells]
doc = "it says something whatever is around it: an iteration, a phase, a backward operator, a sequence number, a call with its place in the program"
[columns.is_iteration]
doc = "the text marks an iteration"
[columns.is_step]
doc = "the text marks an iteration or a phase other than communication"
[columns.is_plain]
doc = "a range of the user's own that may be a layer"
[columns.is_numbered]
doc = "a forward operator with an autograd sequence number"
[columns.is_backward]
doc = "a backward operator or the backward of a layer"
[columns.outermost]
doc = "among layers of this rank the outermost owns the kernel, not the innermost"
[columns.layer_rank]
doc = "which of several enclosing layers owns a kernel: the largest rank; NULL without a layer, and for operators and calls that were still open where the trace ends"
*/
WITH
-- A call that raised is never popped, and stays around all that its thread does later: nsys closes
-- such ranges together, where the trace ends.
closed_last AS (
    SELECT trace_id, r.end_ns
    FROM annotation_range r JOIN trace c USING (trace_id)
    WHERE r.end_ns = c.end_ns
    GROUP BY ALL HAVING count(*) > 1
),
stacked AS NOT MATERIALIZED (
    SELECT *, hash(trace_id, process_id, thread_id, domain_id, kind) AS stack_id FROM annotation_range
),
-- What a layer that always owns is around drops out if its text says nothing else, but for what the
-- user's own range that comes once may hold (_layer_owner). Such texts are few and their ranges many,
-- so that all texts are joined with those alone that are left.
silent AS (
    SELECT trace_id, domain, text, layer_kind = 'plain' AS is_plain
    FROM _annotation_role
    WHERE layer_kind IN ('operator', 'plain') AND seq IS NULL AND NOT (is_library OR is_backward)
),
placed AS NOT MATERIALIZED (
    SELECT r.*,
        CASE WHEN m.text IS NOT NULL AND NOT (m.is_plain AND s.stack_id IS NOT NULL)
             THEN r.start_ns // l.moment_ns
        END AS moment
    FROM stacked r
    LEFT JOIN silent m
        ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain AND m.text = r.text
    LEFT JOIN (SELECT DISTINCT stack_id FROM _user_annotation WHERE is_sole) s ON s.stack_id = r.stack_id
    CROSS JOIN (SELECT any_value(moment_ns) AS moment_ns FROM _layer_anchor) l
),
outside AS NOT MATERIALIZED (
    SELECT r.*
    FROM placed r
    ANTI JOIN _layer_anchor b
        ON  b.stack_id = r.stack_id AND b.moment = r.moment
        AND b.start_ns < r.start_ns AND b.end_ns > r.end_ns
)
SELECT r.trace_id, r.annotation_id, r.stack_id,
    r.process_id, r.thread_id, r.domain_id, r.kind, r.start_ns, r.end_ns,
    r.end_thread_id IS NULL OR r.end_thread_id IS NOT DISTINCT FROM r.thread_id AS stays,
    m.first_range_id,
    m.is_iteration OR m.is_backward OR m.phase IS NOT NULL OR m.seq IS NOT NULL
        OR coalesce(m.layer_kind IN ('stack', 'module'), false) AS tells,
    m.is_iteration,
    m.is_iteration OR coalesce(m.phase <> 'communication', false) AS is_step,
    coalesce(m.layer_kind = 'plain', false) AS is_plain,
    m.seq IS NOT NULL AND NOT m.is_backward AS is_numbered, m.is_backward, m.outermost,
    CASE WHEN NOT (m.outermost AND (r.is_open OR c.end_ns IS NOT NULL)) THEN m.layer_rank END
        AS layer_rank
FROM outside r
JOIN _annotation_role m
    ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain AND m.text = r.text
LEFT JOIN closed_last c ON c.trace_id = r.trace_id AND c.end_ns = r.end_ns
WHERE NOT m.is_library
