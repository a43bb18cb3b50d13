/*
title    = "What each NVTX range means"
question = "Which ranges are iterations, phases and layers?"
grain    = "one NVTX range that says something about what is in it: an iteration, a phase, a layer that may own, an operator of the backward pass or with a sequence number"
needs    = ["range_role", "nvtx_role"]
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
doc = "the range"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.stays]
doc = "the thread that opened it also closed it, as far as is known: it may hold launches"
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
[columns.position]
doc = "order in which these ranges of the trace began, from 1; of those that begin together in the order of the file"
[columns.is_iteration]
doc = "the range marks an iteration"
[columns.phase]
doc = "phase that the range marks; NULL when it marks none"
[columns.layer]
doc = "layer that the range marks; NULL when it marks none, or only holds others (a training loop, an epoch)"
[columns.layer_kind]
doc = "how the layer was recognised (nvtx_role)"
[columns.layer_order]
doc = "of the layers around a kernel the one with the largest order owns it; NULL without a layer, and for a layer that never owns because another around it always does"
[columns.seq]
doc = "autograd sequence number; NULL without one"
[columns.is_backward]
doc = "a backward operator or the backward of a layer"
*/
WITH
iterations AS (
    SELECT trace_id, process_id, count(*) AS iterations
    FROM range_role WHERE is_iteration GROUP BY ALL
),
plain_text AS (
    SELECT m.*, r.layer, regexp_replace(r.layer, '\d+', '#', 'g') AS pattern,
        sum(m.times_here) OVER (PARTITION BY m.trace_id, m.process_id, m.domain_id, r.layer) AS times
    FROM (
        SELECT trace_id, process_id, domain_id, stack_id, first_range_id, count(*) AS times_here
        FROM range_role WHERE is_plain GROUP BY ALL
    ) m
    JOIN nvtx_role r USING (trace_id, first_range_id)
),
-- A name that counts the iterations ("compute 0", "compute 1", …) is one layer, "compute #".
named AS (
    SELECT p.*,
        CASE WHEN i.iterations >= 3 AND max(p.times) OVER same = 1 AND count(*) OVER same >= 3
             THEN p.pattern ELSE p.layer END AS name
    FROM plain_text p
    LEFT JOIN iterations i
        ON i.trace_id = p.trace_id AND i.process_id IS NOT DISTINCT FROM p.process_id
    WINDOW same AS (PARTITION BY p.trace_id, p.process_id, p.domain_id, p.pattern)
),
plain AS MATERIALIZED (
    SELECT stack_id, first_range_id, name,
        sum(times_here) OVER (PARTITION BY trace_id, process_id, domain_id, name) = 1 AS is_sole,
        regexp_matches(lower(layer),
            '(^|[^a-z])(train|training|main|epoch|loop|warm[-_ ]?up|benchmark|init|initiali[sz]e|setup|run|profil\w*|validation|eval|evaluate|inference)([^a-z]|$)')
            AS is_container
    FROM named
),
-- What is the same in a whole stack need not be sorted and joined with its ranges.
stack AS MATERIALIZED (
    SELECT stack_id, any_value(trace_id) AS trace_id, any_value(process_id) AS process_id,
        any_value(thread_id) AS thread_id, any_value(domain_id) AS domain_id, any_value(kind) AS kind,
        bool_or(is_numbered) AS has_numbered
    FROM range_role GROUP BY stack_id
),
-- What is inside a layer of the best kinds owns nothing and decides nothing, and that is most of what
-- a framework prints: it is dropped before anything is sorted. (Backward ranges outdo no others where
-- forward operators may be inside: sequence_layer.) A layer is found by the moments that it is open
-- at, as many as there are layers.
best AS MATERIALIZED (
    SELECT r.stack_id, r.start_ns, r.end_ns
    FROM range_role r JOIN stack s USING (stack_id)
    WHERE r.layer_rank >= 4 AND r.stays AND NOT (r.is_backward AND s.has_numbered)
),
moment AS MATERIALIZED (
    SELECT greatest(sum(end_ns - start_ns) // nullif(count(*), 0), 1)::BIGINT AS length_ns FROM best
),
open_best AS MATERIALIZED (
    SELECT stack_id, start_ns, end_ns,
        unnest(range(start_ns // length_ns, end_ns // length_ns + 1)) AS moment
    FROM best, moment
),
outside AS NOT MATERIALIZED (
    SELECT r.* EXCLUDE (moment)
    FROM (
        SELECT range_role.*, start_ns // length_ns AS moment
        FROM range_role, moment WHERE layer_rank IS NOT NULL
    ) r
    ANTI JOIN open_best b
        ON  b.stack_id = r.stack_id AND b.moment = r.moment
        AND r.layer_rank <= 4 AND b.start_ns < r.start_ns AND b.end_ns > r.end_ns
),
-- Ranges around an iteration or a phase are loops and functions, not layers, and so are ranges of a
-- name that comes once around others of the user's. In the order of a stack, what a range holds
-- follows it at once: the next one begins before the range ends, or none is inside. (DuckDB takes
-- five times as long over the stacks one by one. The last stack is first here, and times of a later
-- stack count as later than all of an earlier one.)
holder AS (
    SELECT stack_id, nvtx_range_id
    FROM (
        SELECT m.stack_id, m.nvtx_range_id, m.start_ns, m.end_ns, m.is_step, m.is_plain,
            coalesce(p.is_sole, false) AS is_sole,
            m.stack_id::HUGEINT * 9_223_372_036_854_775_808 + m.start_ns AS start,
            m.stack_id::HUGEINT * 9_223_372_036_854_775_808 + m.end_ns AS until
        FROM (
            FROM range_role WHERE is_step
            UNION ALL
            FROM outside WHERE is_plain AND stack_id NOT IN (SELECT stack_id FROM plain WHERE is_sole)
            UNION ALL
            FROM range_role WHERE is_plain AND stack_id IN (SELECT stack_id FROM plain WHERE is_sole)
        ) m
        LEFT JOIN plain p
            ON m.is_plain AND p.stack_id = m.stack_id AND p.first_range_id = m.first_range_id
        WHERE m.kind = 'push_pop'
    )
    WINDOW later AS (
        ORDER BY stack_id DESC, start_ns DESC, end_ns = start_ns DESC, end_ns, nvtx_range_id DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    QUALIFY is_plain AND (
        coalesce(min(start) FILTER (is_step) OVER later < until, false)
        OR is_sole AND coalesce(min(start) FILTER (is_plain) OVER later < until, false))
),
-- Most layers are operators inside operators or inside layers that say more: they own nothing.
owner AS (
    SELECT stack_id, nvtx_range_id
    FROM (
        SELECT m.stack_id, m.nvtx_range_id, m.start_ns, m.layer_rank,
            -- what has no length is outside a range that ends then
            m.end_ns + (m.end_ns = m.start_ns)::INTEGER AS until_ns,
            CASE WHEN m.stays AND NOT (m.is_backward AND s.has_numbered) THEN m.end_ns END AS reach_ns
        FROM outside m
        JOIN stack s USING (stack_id)
        LEFT JOIN plain p
            ON m.is_plain AND p.stack_id = m.stack_id AND p.first_range_id = m.first_range_id
        LEFT JOIN holder h
            ON m.is_plain AND h.stack_id = m.stack_id AND h.nvtx_range_id = m.nvtx_range_id
        WHERE NOT coalesce(p.is_container, false) AND h.stack_id IS NULL
    )
    WINDOW earlier AS (
        PARTITION BY stack_id ORDER BY start_ns, nvtx_range_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    QUALIFY NOT coalesce(until_ns <= CASE
        WHEN layer_rank = 1 THEN max(reach_ns) OVER earlier
        WHEN layer_rank <= 4 THEN max(reach_ns) FILTER (layer_rank >= 4) OVER earlier
    END, false)
),
placed AS (
    SELECT m.nvtx_range_id, m.first_range_id, m.start_ns, m.end_ns, m.stays, m.is_iteration,
        m.is_backward, m.outermost, m.layer_rank,
        o.nvtx_range_id IS NOT NULL AS may_own, s.* EXCLUDE (has_numbered),
        row_number() OVER (PARTITION BY s.trace_id ORDER BY m.start_ns, m.nvtx_range_id) AS position
    FROM range_role m
    LEFT JOIN owner o USING (stack_id, nvtx_range_id)
    LEFT JOIN stack s USING (stack_id)
    WHERE m.tells OR o.nvtx_range_id IS NOT NULL
)
SELECT m.trace_id, m.nvtx_range_id, m.process_id, m.thread_id, m.stays, m.domain_id, m.kind,
    m.start_ns, m.end_ns, m.position, m.is_iteration, r.phase,
    CASE WHEN m.layer_rank IS NOT NULL THEN coalesce(p.name, r.layer) END AS layer,
    CASE WHEN m.layer_rank IS NOT NULL THEN r.layer_kind END AS layer_kind,
    CASE WHEN m.may_own
         THEN m.layer_rank * 1_000_000_000_000_000 + CASE WHEN m.outermost THEN -position ELSE position END
    END::BIGINT AS layer_order,
    r.seq, m.is_backward
FROM placed m
JOIN nvtx_role r USING (trace_id, first_range_id)
LEFT JOIN plain p
    ON p.stack_id = m.stack_id AND p.first_range_id = m.first_range_id AND r.layer_kind = 'plain'
