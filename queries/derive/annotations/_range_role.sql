/*
title    = "Roles of NVTX ranges by text"
question = "Which range is an iteration, a phase, a layer or an operator, by its text alone?"
source   = "roles of texts (_annotation_role)"
grain    = """NVTX range with a text, not of a library, that has a role on its own or is not inside
    a layer of the best kinds"""
needs    = ["_annotation_role"]
optional = ["annotation_range", "trace", "_layer_anchor", "_user_annotation"]
[columns.trace_id]
doc = "the trace"
[columns.annotation_id]
doc = "the range"
[columns.stack_id]
doc = "number of its trace, process, thread, domain and kind"
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
doc = """true if the thread that opened the range also closed it, or that is unknown; only such
    ranges can contain launches"""
[columns.first_range_id]
doc = "first range with this text; joins with trace_id to _annotation_role"
[columns.is_explicit]
doc = """true if the role does not depend on enclosing ranges: an iteration, a phase, a backward
    operator, a sequence number, a call with its place in the program"""
[columns.is_iteration]
doc = "true if the text marks an iteration"
[columns.is_step]
doc = "true if the text marks an iteration or a phase other than communication"
[columns.is_plain]
doc = "true for a range of the user that may be a layer"
[columns.is_numbered]
doc = "true for a forward operator with an autograd sequence number"
[columns.is_backward]
doc = "true for a backward operator or the backward pass of a layer"
[columns.outermost]
doc = "true if the outermost layer of this rank owns a kernel, false if the innermost"
[columns.layer_rank]
doc = """rank of the layer; of several enclosing layers, the one with the largest rank owns a
    kernel; NULL without a layer, and for operators and calls still open at the end of the trace"""
*/
WITH
-- A call that raised an exception is never popped and would enclose everything that its thread does
-- later. nsys closes such ranges together, at the end of the trace.
closed_last AS (
    SELECT trace_id, r.end_ns
    FROM annotation_range r JOIN trace c USING (trace_id)
    WHERE r.end_ns = c.end_ns
    GROUP BY ALL HAVING count(*) > 1
),
stacked AS NOT MATERIALIZED (
    SELECT *, hash(trace_id, process_id, thread_id, domain_id, kind) AS stack_id
    FROM annotation_range
),
-- Operators and plain ranges without another role drop out if they are inside a layer of the best
-- kinds, except in stacks that need them (_layer_owner). These texts are few but have most ranges,
-- so only the remaining ranges are joined with all texts.
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
    LEFT JOIN (SELECT DISTINCT stack_id FROM _user_annotation WHERE is_sole) s
        ON s.stack_id = r.stack_id
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
        OR coalesce(m.layer_kind IN ('stack', 'module'), false) AS is_explicit,
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
