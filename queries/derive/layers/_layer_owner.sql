/*
title    = "Layers that may own kernels"
question = "Which ranges may own the kernels launched in them?"
source   = """of the layers around a launch, the best kind owns it; of operators the outermost, of
    others the innermost"""
grain    = "range of a layer that is not inside one that always wins"
needs    = ["_range_role", "_user_annotation"]
optional = ["_layer_anchor"]
returns = ["stack_id", "annotation_id"]
[columns]
stack_id = "the stack (_range_role)"
*/
WITH
numbered AS (SELECT DISTINCT stack_id FROM _range_role WHERE is_numbered),
-- Ranges inside a layer of the best kinds are dropped before sorting.
outside AS NOT MATERIALIZED (
    SELECT r.* EXCLUDE (moment)
    FROM (
        SELECT _range_role.*, start_ns // l.moment_ns AS moment
        FROM _range_role
        CROSS JOIN (SELECT any_value(moment_ns) AS moment_ns FROM _layer_anchor) l
        WHERE layer_rank IS NOT NULL
    ) r
    ANTI JOIN _layer_anchor b
        ON  b.stack_id = r.stack_id AND b.moment = r.moment
        AND r.layer_rank <= 4 AND b.start_ns < r.start_ns AND b.end_ns > r.end_ns
),
-- Ranges around an iteration or a phase are loops and functions instead of layers, and so are
-- ranges with a unique name around other ranges of the user. In stack order, the contents of a
-- range follow it: it contains a step if and only if the next step starts before the range ends.
-- One window over all stacks is five times as fast as one per stack: the last stack comes first,
-- and the stack number is part of `start`, so times of later stacks are later than all of an
-- earlier one.
holder AS (
    SELECT stack_id, annotation_id
    FROM (
        SELECT m.stack_id, m.annotation_id, m.start_ns, m.end_ns, m.is_step, m.is_plain,
            coalesce(p.is_sole, false) AS is_sole,
            m.stack_id::HUGEINT * 9_223_372_036_854_775_808 + m.start_ns AS start,
            m.stack_id::HUGEINT * 9_223_372_036_854_775_808 + m.end_ns AS until
        FROM (
            FROM _range_role WHERE is_step
            UNION ALL
            FROM outside
            WHERE is_plain AND stack_id NOT IN (SELECT stack_id FROM _user_annotation WHERE is_sole)
            UNION ALL
            FROM _range_role
            WHERE is_plain AND stack_id IN (SELECT stack_id FROM _user_annotation WHERE is_sole)
        ) m
        LEFT JOIN _user_annotation p
            ON m.is_plain AND p.stack_id = m.stack_id AND p.first_range_id = m.first_range_id
        WHERE m.kind = 'push_pop'
    )
    WINDOW later AS (
        ORDER BY stack_id DESC, start_ns DESC, end_ns = start_ns DESC, end_ns, annotation_id DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    QUALIFY is_plain AND (
        coalesce(min(start) FILTER (is_step) OVER later < until, false)
        OR is_sole AND coalesce(min(start) FILTER (is_plain) OVER later < until, false))
)
-- Most layers are operators inside operators or inside layers of a better kind; they own nothing.
SELECT stack_id, annotation_id
FROM (
    SELECT m.stack_id, m.annotation_id, m.start_ns, m.layer_rank,
        -- An empty range at the end of another is outside of it.
        m.end_ns + (m.end_ns = m.start_ns)::INTEGER AS until_ns,
        CASE WHEN m.stays AND NOT (m.is_backward AND n.stack_id IS NOT NULL) THEN m.end_ns END
            AS reach_ns
    FROM outside m
    LEFT JOIN numbered n USING (stack_id)
    LEFT JOIN _user_annotation p
        ON m.is_plain AND p.stack_id = m.stack_id AND p.first_range_id = m.first_range_id
    LEFT JOIN holder h
        ON m.is_plain AND h.stack_id = m.stack_id AND h.annotation_id = m.annotation_id
    WHERE NOT coalesce(p.is_container, false) AND h.stack_id IS NULL
)
WINDOW earlier AS (
    PARTITION BY stack_id ORDER BY start_ns, annotation_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
QUALIFY NOT coalesce(until_ns <= CASE
    WHEN layer_rank = 1 THEN max(reach_ns) OVER earlier
    WHEN layer_rank <= 4 THEN max(reach_ns) FILTER (layer_rank >= 4) OVER earlier
END, false)
