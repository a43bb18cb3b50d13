/*
title    = "Plain ranges of the user"
question = "What is the layer name of a range of the user, and is it a loop instead of a layer?"
grain    = "text and stack of ranges of the user that may be layers"
needs    = ["_annotation_role"]
optional = ["annotation_range"]
[columns]
stack_id = "the stack (_range_role)"
first_range_id = "first range with the text"
name = "name of the layer"
is_sole = "true if the process has a single range of this name in the domain"
is_container = "true if the text names a container of layers: training, an epoch, a loop"
*/
WITH
counted AS MATERIALIZED (
    SELECT r.trace_id, r.process_id, r.domain_id,
        hash(r.trace_id, r.process_id, r.thread_id, r.domain_id, r.kind) AS stack_id,
        m.first_range_id, m.layer, m.is_iteration, count(*) AS times_here
    FROM annotation_range r
    JOIN _annotation_role m
        ON m.trace_id = r.trace_id AND m.domain IS NOT DISTINCT FROM r.domain AND m.text = r.text
    WHERE NOT m.is_library AND (m.is_iteration OR m.layer_kind = 'plain')
    GROUP BY ALL
),
iterations AS (
    SELECT trace_id, process_id, sum(times_here) AS iterations
    FROM counted WHERE is_iteration GROUP BY ALL
),
plain_text AS (
    SELECT * EXCLUDE (is_iteration), regexp_replace(layer, '\d+', '#', 'g') AS pattern,
        sum(times_here) OVER (PARTITION BY trace_id, process_id, domain_id, layer) AS times
    FROM counted WHERE NOT is_iteration
),
-- If a name numbers the iterations ("compute 0", "compute 1", …), all are one layer, "compute #".
named AS (
    SELECT p.*,
        CASE WHEN i.iterations >= 3 AND max(p.times) OVER same = 1 AND count(*) OVER same >= 3
             THEN p.pattern ELSE p.layer END AS name
    FROM plain_text p
    LEFT JOIN iterations i
        ON i.trace_id = p.trace_id AND i.process_id IS NOT DISTINCT FROM p.process_id
    WINDOW same AS (PARTITION BY p.trace_id, p.process_id, p.domain_id, p.pattern)
)
SELECT stack_id, first_range_id, name,
    sum(times_here) OVER (PARTITION BY trace_id, process_id, domain_id, name) = 1 AS is_sole,
    regexp_matches(lower(layer),
        '(^|[^a-z])(train|training|main|epoch|loop|warm[-_ ]?up|benchmark|init|initiali[sz]e|setup'
        || '|run|profil\w*|validation|eval|evaluate|inference)([^a-z]|$)')
        AS is_container
FROM named
