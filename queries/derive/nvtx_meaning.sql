/*
title    = "What each NVTX range means"
question = "Which ranges are iterations, phases and layers?"
grain    = "one NVTX range of a domain that annotates the model"
needs    = ["nvtx_role", "nvtx_tree"]
optional = ["nvtx_range", "trace"]
[columns.trace_id]
doc = "the trace"
[columns.nvtx_range_id]
doc = "the range"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.start_ns]
unit = "ns"
doc = "start"
[columns.end_ns]
unit = "ns"
doc = "end"
[columns.is_iteration]
doc = "the range marks an iteration"
[columns.phase]
doc = "phase that the range marks; NULL when it marks none"
[columns.layer]
doc = "layer that the range marks; NULL when it marks none, or only holds others (a training loop, an epoch)"
[columns.layer_kind]
doc = "how the layer was recognised (nvtx_role)"
[columns.layer_order]
doc = "of the layers around a kernel the one with the largest order owns it"
[columns.seq]
doc = "autograd sequence number; NULL without one"
[columns.is_backward]
doc = "a backward operator or the backward of a layer"
*/
WITH RECURSIVE
-- A call that raised is never popped, and stays around all that its thread does later: nsys closes
-- such ranges together, where the trace ends.
ranged AS (
    SELECT r.*,
        r.is_open
        OR (r.end_ns = c.end_ns AND count(*) OVER (PARTITION BY r.trace_id, r.end_ns) > 1) AS is_leaked
    FROM nvtx_range r JOIN trace c USING (trace_id)
),
meaning AS (
    SELECT r.trace_id, r.nvtx_range_id, r.process_id, r.thread_id, r.start_ns, r.end_ns, r.domain_id,
        t.parent_id, m.is_iteration, m.phase, m.layer_kind, m.layer_rank, m.outermost, m.seq,
        m.is_backward,
        CASE WHEN NOT (r.is_leaked AND m.outermost) THEN m.layer END AS layer,
        sum(m.is_iteration::INTEGER) OVER (PARTITION BY r.trace_id, r.process_id) AS iterations
    FROM ranged r
    JOIN nvtx_tree t USING (trace_id, nvtx_range_id)
    JOIN nvtx_role m
        ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain AND m.text = r.text
    WHERE NOT m.is_library
),
-- Ranges around an iteration or a phase are loops and functions, not layers.
around AS (
    SELECT DISTINCT trace_id, parent_id AS nvtx_range_id
    FROM meaning
    WHERE (is_iteration OR phase <> 'communication') AND parent_id IS NOT NULL
    UNION
    SELECT t.trace_id, t.parent_id
    FROM around a JOIN nvtx_tree t USING (trace_id, nvtx_range_id)
    WHERE t.parent_id IS NOT NULL
),
parent AS (
    SELECT DISTINCT trace_id, parent_id AS nvtx_range_id
    FROM meaning WHERE layer_kind = 'plain' AND parent_id IS NOT NULL
),
-- A name that counts the iterations ("compute 0", "compute 1", …) is one layer, "compute #".
counted AS (
    SELECT trace_id, process_id, domain_id, layer, pattern,
        CASE WHEN enough_iterations AND max(times) OVER same = 1 AND count(*) OVER same >= 3
             THEN pattern ELSE layer END AS name
    FROM (
        SELECT trace_id, process_id, domain_id, layer, regexp_replace(layer, '\d+', '#', 'g') AS pattern,
            count(*) AS times, max(iterations) >= 3 AS enough_iterations
        FROM meaning WHERE layer_kind = 'plain' GROUP BY ALL
    )
    WINDOW same AS (PARTITION BY trace_id, process_id, domain_id, pattern)
),
repeated AS (
    SELECT m.trace_id, m.nvtx_range_id, c.name,
        count(*) OVER (PARTITION BY m.trace_id, m.process_id, m.domain_id, c.name) AS times
    FROM meaning m
    JOIN counted c
        ON  c.trace_id = m.trace_id AND c.process_id IS NOT DISTINCT FROM m.process_id
        AND c.domain_id = m.domain_id AND c.layer = m.layer
    WHERE m.layer_kind = 'plain'
),
judged AS (
    SELECT m.* REPLACE (coalesce(r.name, m.layer) AS layer),
        m.layer_kind = 'plain' AND (
            a.nvtx_range_id IS NOT NULL
            OR (r.times = 1 AND p.nvtx_range_id IS NOT NULL)
            OR regexp_matches(lower(m.layer),
                '(^|[^a-z])(train|training|main|epoch|loop|warm[-_ ]?up|benchmark|init|initiali[sz]e|setup|run|profil\w*|validation|eval|evaluate|inference)([^a-z]|$)')
        ) AS is_container
    FROM meaning m
    LEFT JOIN around a USING (trace_id, nvtx_range_id)
    LEFT JOIN parent p USING (trace_id, nvtx_range_id)
    LEFT JOIN repeated r USING (trace_id, nvtx_range_id)
)
SELECT trace_id, nvtx_range_id, process_id, thread_id, start_ns, end_ns, is_iteration, phase,
    CASE WHEN NOT is_container THEN layer END AS layer,
    CASE WHEN NOT is_container AND layer IS NOT NULL THEN layer_kind END AS layer_kind,
    CASE WHEN NOT is_container AND layer IS NOT NULL
         THEN {'rank': layer_rank, 'at': CASE WHEN outermost THEN -start_ns ELSE start_ns END,
               'tie': CASE WHEN outermost THEN -nvtx_range_id ELSE nvtx_range_id END}
    END AS layer_order,
    seq, is_backward
FROM judged
