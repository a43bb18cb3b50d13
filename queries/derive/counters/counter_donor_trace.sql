/*
title    = "Metric runs that lend their counters"
question = "Which traces are the metric runs of a capture that has a timeline, too?"
source   = "profilers replay and serialise kernels to count: times come from the timeline run alone"
grain    = "trace that only lends its counters"
needs    = ["trace"]
[columns.trace_id]
doc = "the metric run"
*/
SELECT m.trace_id
FROM trace m
WHERE m.kind = 'metrics'
  AND EXISTS (SELECT 1 FROM trace t WHERE t.capture_id = m.capture_id AND t.kind = 'timeline')
