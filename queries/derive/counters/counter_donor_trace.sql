/*
title    = "Metric runs that supply counters"
question = "Which traces are metric runs of a capture that also has a timeline?"
source   = """profilers replay and serialize kernels to count, so times are taken from the timeline
    only"""
grain    = "metric run of a capture with a timeline"
needs    = ["trace"]
[columns]
trace_id = "the metric run"
*/
SELECT m.trace_id
FROM trace m
WHERE m.kind = 'metrics'
  AND EXISTS (SELECT 1 FROM trace t WHERE t.capture_id = m.capture_id AND t.kind = 'timeline')
