/*
title    = "Iteration of one worker"
question = "What does an iteration take before any communication?"
grain    = "trace of one worker, or layer list"
needs    = ["layer_cost", "_dp_setting"]
[advice]
missing = """
needs a trace of one worker with layers.json (tbd-trace collect without --ranks), or a file
--set layers=FILE.csv with the columns name, fwd_s, bwd_s and grad_bytes; the layers of a rank wait
for the others"""
[columns]
trace_id = "the trace or layer list"
forward_s = {unit = "s", doc = "forward time of all layers"}
backward_s = {unit = "s", doc = "backward time of all layers"}
rest_s = {unit = "s", doc = "optimizer and rest of the iteration"}
alone_s = {unit = "s", doc = "iteration of one worker"}
gradient_bytes = "bytes of all gradients"
shortest = """5th percentile of the iterations ÷ their median; 1 with fewer than 10 iterations,
    whose percentiles are little more than the extremes"""
longest = "95th percentile of the iterations ÷ their median; 1 with fewer than 10"
band = "what the columns low and high contain"
evidence = "origin of the times and bytes"
*/
SELECT c.trace_id, sum(c.forward_s) AS forward_s, sum(c.backward_s) AS backward_s,
    any_value(s.optimizer_s) + coalesce(any_value(s.tail_s), greatest(0, any_value(c.iteration_s)
        - sum(c.forward_s + c.backward_s) - any_value(s.optimizer_s)), 0) AS rest_s,
    sum(c.forward_s) + sum(c.backward_s) + rest_s AS alone_s,
    sum(c.gradient_bytes) AS gradient_bytes,
    coalesce(any_value(c.iteration_p5_s / c.iteration_s) FILTER (c.iterations >= 10), 1)
        AS shortest,
    coalesce(any_value(c.iteration_p95_s / c.iteration_s) FILTER (c.iterations >= 10), 1)
        AS longest,
    CASE WHEN any_value(c.iterations) IS NULL THEN 'link'
        WHEN any_value(c.iterations) >= 10 THEN 'link and iterations'
        ELSE format('link; the spread of iterations needs 10, not {}', any_value(c.iterations))
    END AS band,
    any_value(c.evidence) AS evidence
FROM layer_cost c CROSS JOIN _dp_setting s
WHERE c.ranks IS NULL
GROUP BY c.trace_id
