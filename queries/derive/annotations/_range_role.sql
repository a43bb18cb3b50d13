/*
title    = "Roles of NVTX ranges by text"
question = "Which range is an iteration, a phase, a layer or an operator, by its text alone?"
source   = "roles of texts (_annotation_role)"
grain    = """NVTX range with a text, not of a library, that has a role on its own or is not inside
    a layer of the best kinds"""
needs    = ["_annotation_role"]
optional = ["annotation_range", "trace", "_layer_anchor", "_user_annotation"]
returns = [
    "trace_id", "annotation_id", "stack_id", "process_id", "thread_id", "domain_id", "kind",
    "start_ns", "end_ns", "stays", "first_range_id", "is_explicit", "is_iteration", "is_step",
    "is_plain", "is_numbered", "is_backward", "outermost", "layer_rank",
]
[columns]
annotation_id = "the range"
stack_id = "number of its trace, process, thread, domain and kind"
thread_id = "key of the thread"
domain_id = "NVTX domain number"
kind = "push_pop or start_end"
start_ns = "start"
end_ns = "end"
stays = """true if the thread that opened the range also closed it, or that is unknown; only such
    ranges can contain launches"""
first_range_id = "first range with this text; joins with trace_id to _annotation_role"
is_explicit = """true if the role does not depend on enclosing ranges: an iteration, a phase, a
    backward operator, a sequence number, a call with its place in the program"""
is_step = "true if the text marks an iteration or a phase other than communication"
is_plain = "true for a range of the user that may be a layer"
is_numbered = "true for a forward operator with an autograd sequence number"
layer_rank = """rank of the layer; of several enclosing layers, the one with the largest rank owns a
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
