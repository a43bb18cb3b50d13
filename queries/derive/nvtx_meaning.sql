/*
title    = "What each NVTX range means"
question = "Which ranges are iterations, phases and layers?"
grain    = "one NVTX range that says something about what is in it: an iteration, a phase, a layer that may own, an operator of the backward pass or with a sequence number"
needs    = ["nvtx_role"]
optional = ["nvtx_range", "trace"]
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
-- The texts and the stacks are numbered, so that sorts and joins of all ranges are by numbers.
role AS MATERIALIZED (
    SELECT *, row_number() OVER () AS role_id FROM nvtx_role WHERE NOT is_library
),
stack AS MATERIALIZED (
    SELECT *, row_number() OVER () AS stack_id
    FROM (SELECT DISTINCT trace_id, process_id, thread_id, domain_id, kind FROM nvtx_range)
),
-- A call that raised is never popped, and stays around all that its thread does later: nsys closes
-- such ranges together, where the trace ends.
closed_last AS (
    SELECT trace_id, r.end_ns
    FROM nvtx_range r JOIN trace c USING (trace_id)
    WHERE r.end_ns = c.end_ns
    GROUP BY ALL HAVING count(*) > 1
),
meaning AS MATERIALIZED (
    SELECT s.stack_id, r.nvtx_range_id, r.start_ns, r.end_ns, m.role_id, m.is_iteration,
        m.is_iteration OR coalesce(m.phase <> 'communication', false) AS is_step, m.outermost, m.is_backward,
        r.end_thread_id IS NULL OR r.end_thread_id IS NOT DISTINCT FROM r.thread_id AS stays,
        CASE WHEN NOT (m.outermost AND (r.is_open OR c.end_ns IS NOT NULL)) THEN m.layer_rank END
            AS layer_rank,
        m.layer_kind = 'plain' AS is_plain,
        m.seq IS NOT NULL AND NOT m.is_backward AS is_numbered
    FROM nvtx_range r
    JOIN stack s
        ON  s.trace_id = r.trace_id AND s.process_id IS NOT DISTINCT FROM r.process_id
        AND s.thread_id IS NOT DISTINCT FROM r.thread_id AND s.domain_id = r.domain_id
        AND s.kind = r.kind
    JOIN role m
        ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain AND m.text = r.text
    LEFT JOIN closed_last c ON c.trace_id = r.trace_id AND c.end_ns = r.end_ns
    WHERE r.trace_id IN (SELECT trace_id FROM trace)
),
-- Ranges around an iteration or a phase are loops and functions, not layers. In the order of a
-- stack, what a range holds follows it at once: the next one begins before the range ends, or none
-- is inside.
holding AS (
    SELECT stack_id, nvtx_range_id, is_plain,
        coalesce(min(start_ns) FILTER (is_step) OVER later < end_ns, false) AS holds_step,
        coalesce(min(start_ns) FILTER (is_plain) OVER later < end_ns, false) AS holds_plain
    FROM meaning m JOIN stack s USING (stack_id)
    WHERE s.kind = 'push_pop' AND (is_plain OR is_step)
    WINDOW later AS (
        PARTITION BY stack_id ORDER BY start_ns, end_ns = start_ns, end_ns DESC, nvtx_range_id
        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
    QUALIFY is_plain AND (holds_step OR holds_plain)
),
iterations AS (
    SELECT s.trace_id, s.process_id, count(*) AS iterations
    FROM meaning m JOIN stack s USING (stack_id) WHERE m.is_iteration GROUP BY ALL
),
plain_text AS (
    SELECT m.stack_id, m.role_id, s.trace_id, s.process_id, s.domain_id, r.layer,
        regexp_replace(r.layer, '\d+', '#', 'g') AS pattern, m.times AS times_here,
        sum(m.times) OVER (PARTITION BY s.trace_id, s.process_id, s.domain_id, r.layer) AS times
    FROM (SELECT stack_id, role_id, count(*) AS times FROM meaning WHERE is_plain GROUP BY ALL) m
    JOIN stack s USING (stack_id)
    JOIN role r USING (role_id)
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
    SELECT stack_id, role_id, name,
        sum(times_here) OVER (PARTITION BY trace_id, process_id, domain_id, name) = 1 AS is_sole,
        regexp_matches(lower(layer),
            '(^|[^a-z])(train|training|main|epoch|loop|warm[-_ ]?up|benchmark|init|initiali[sz]e|setup|run|profil\w*|validation|eval|evaluate|inference)([^a-z]|$)')
            AS is_container
    FROM named
),
judged AS (
    SELECT m.* EXCLUDE (layer_rank, is_step, is_plain, is_numbered),
        CASE WHEN NOT coalesce(
                p.is_container OR h.holds_step OR (p.is_sole AND h.holds_plain), false)
             THEN m.layer_rank END AS layer_rank,
        n.stack_id IS NOT NULL AS has_numbered
    FROM meaning m
    LEFT JOIN plain p ON m.is_plain AND p.stack_id = m.stack_id AND p.role_id = m.role_id
    LEFT JOIN holding h ON h.stack_id = m.stack_id AND h.nvtx_range_id = m.nvtx_range_id
        AND m.is_plain
    LEFT JOIN (SELECT DISTINCT stack_id FROM meaning WHERE is_numbered) n ON n.stack_id = m.stack_id
),
-- Most layers are operators inside operators or inside layers that say more: they own nothing.
-- (Backward ranges outdo no others where forward operators may be inside: sequence_layer.)
outdone AS (
    SELECT *,
        -- what has no length is outside a range that ends then
        coalesce(end_ns + (end_ns = start_ns)::INTEGER <= CASE
            WHEN layer_rank = 1 THEN max(reach_ns) OVER earlier
            WHEN layer_rank <= 4 THEN max(reach_ns) FILTER (layer_rank >= 4) OVER earlier
        END, false) AS is_outdone
    FROM (
        SELECT *,
            CASE WHEN layer_rank IS NOT NULL AND stays AND NOT (is_backward AND has_numbered)
                 THEN end_ns END AS reach_ns
        FROM judged
    )
    WINDOW earlier AS (
        PARTITION BY stack_id ORDER BY start_ns, nvtx_range_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT s.trace_id, m.nvtx_range_id, s.process_id, s.thread_id, m.stays, s.domain_id, s.kind,
    m.start_ns, m.end_ns,
    row_number() OVER (PARTITION BY s.trace_id ORDER BY m.start_ns, m.nvtx_range_id) AS position,
    m.is_iteration, r.phase,
    CASE WHEN m.layer_rank IS NOT NULL THEN coalesce(p.name, r.layer) END AS layer,
    CASE WHEN m.layer_rank IS NOT NULL THEN r.layer_kind END AS layer_kind,
    CASE WHEN m.layer_rank IS NOT NULL AND NOT m.is_outdone
         THEN m.layer_rank * 1_000_000_000_000_000 + CASE WHEN m.outermost THEN -position ELSE position END
    END::BIGINT AS layer_order,
    r.seq, m.is_backward
FROM outdone m
JOIN stack s USING (stack_id)
JOIN role r USING (role_id)
LEFT JOIN plain p
    ON p.stack_id = m.stack_id AND p.role_id = m.role_id AND r.layer_kind = 'plain'
WHERE m.is_iteration OR m.is_backward OR r.phase IS NOT NULL OR r.seq IS NOT NULL
   OR r.layer_kind IN ('stack', 'module') OR (m.layer_rank IS NOT NULL AND NOT m.is_outdone)
