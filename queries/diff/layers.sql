/*
title    = "Layers of two runs"
question = "Which layers take more or less time in B than in A?"
source   = "layer_time: exclusive time by the clock that both sides have (layer_clock)"
grain    = "layer and phase"
needs    = ["diff_side", "layer_clock"]
optional = ["window_op", "layer_host_time", "analysis_window", "host_window"]
returns = [
    "layer", "phase", "a_ns", "b_ns", "change_ns", "change_pct", "share_a_pct", "share_b_pct",
    "status", "clock", "per",
]
[columns]
layer = "layer; NULL for time without a layer"
a_ns = "time in A, per the unit in column per; 0 if A lacks the layer"
b_ns = "time in B, per the unit in column per; 0 if B lacks the layer"
change_ns = "B − A; NULL if per is not alike"
change_pct = "change ÷ time in A; NULL if A lacks the layer"
share_a_pct = "share of the sum over all rows in A"
share_b_pct = "share of the sum over all rows in B"
status = "new, gone or in both"
clock = "gpu: kernel durations; host: exclusive time of the ranges"
per = """unit of the values: iteration of a process (processes with iterations only); whole trace if
    neither side has iterations; not alike if one side has"""
[plot]
kind = "barh"
x = ["layer", "phase"]
y = ["change_ns"]
limit = 20
title = "Change of layer time"
*/
WITH
-- Layer times compare only on one clock; without a common clock, the result is empty.
clock AS (
    SELECT any_value(c.clock) AS clock
    FROM diff_side s JOIN layer_clock c USING (trace_id)
    HAVING count(DISTINCT c.clock) = 1 AND count(DISTINCT s.side) = 2
),
process_window AS (
    SELECT s.side, w.trace_id, w.process_id, max(w.iterations) AS iterations
    FROM diff_side s JOIN analysis_window w USING (trace_id), clock
    WHERE clock.clock = 'gpu'
    GROUP BY ALL
    UNION ALL
    SELECT s.side, w.trace_id, w.process_id, nullif(count(w.iteration), 0)
    FROM diff_side s
    JOIN host_window w USING (trace_id)
    SEMI JOIN layer_host_time t
        ON t.trace_id = w.trace_id AND t.process_id IS NOT DISTINCT FROM w.process_id,
    clock
    WHERE clock.clock = 'host'
    GROUP BY s.side, w.trace_id, w.process_id
),
-- Per-iteration values exist only for processes with iterations; if a side has any, the others are
-- left out.
counted AS (
    SELECT * FROM process_window
    QUALIFY iterations IS NOT NULL OR count(iterations) OVER (PARTITION BY side) = 0
),
time_of AS (
    SELECT c.side, o.layer, o.phase, sum(o.duration_ns) AS ns
    FROM counted c
    JOIN window_op o
        ON o.trace_id = c.trace_id AND o.process_id IS NOT DISTINCT FROM c.process_id,
    clock
    WHERE clock.clock = 'gpu' AND o.op_kind IN ('kernel', 'graph')
    GROUP BY ALL
    UNION ALL
    SELECT c.side, h.layer, h.phase, sum(h.host_ns)
    FROM counted c
    JOIN layer_host_time h
        ON h.trace_id = c.trace_id AND h.process_id IS NOT DISTINCT FROM c.process_id,
    clock
    WHERE clock.clock = 'host'
    GROUP BY ALL
),
units AS (SELECT side, sum(iterations) AS iterations FROM counted GROUP BY side),
per AS (
    SELECT CASE WHEN count(iterations) = 2 THEN 'iteration of a process'
                WHEN count(iterations) = 0 THEN 'whole trace' ELSE 'not alike' END AS per
    FROM units
),
scaled AS (
    SELECT t.side, t.layer, t.phase, per.per,
        round(t.ns / coalesce(u.iterations, 1))::BIGINT AS ns,
        100.0 * t.ns / nullif(sum(t.ns) OVER (PARTITION BY t.side), 0) AS share_pct
    FROM time_of t JOIN units u USING (side), per
),
paired AS (
    SELECT layer, phase, any_value(per) AS per,
        coalesce(max(ns) FILTER (side = 'A'), 0) AS a_ns,
        coalesce(max(ns) FILTER (side = 'B'), 0) AS b_ns,
        coalesce(max(share_pct) FILTER (side = 'A'), 0) AS share_a_pct,
        coalesce(max(share_pct) FILTER (side = 'B'), 0) AS share_b_pct,
        CASE WHEN count(*) = 2 THEN 'in both' WHEN any_value(side) = 'A' THEN 'gone'
             ELSE 'new' END AS status
    FROM scaled GROUP BY layer, phase
)
SELECT p.layer, p.phase, p.a_ns, p.b_ns,
    CASE WHEN p.per <> 'not alike' THEN p.b_ns - p.a_ns END AS change_ns,
    100.0 * change_ns / nullif(p.a_ns, 0) AS change_pct,
    p.share_a_pct, p.share_b_pct, p.status, c.clock, p.per
FROM paired p, clock c
ORDER BY abs(coalesce(change_ns, 0)) DESC, p.a_ns DESC, p.b_ns DESC, p.layer NULLS LAST,
    p.phase NULLS LAST
