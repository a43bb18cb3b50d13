/*
title    = "Training in each trace"
question = "May rules about training judge the kernels of this trace?"
source   = "training_window; what was counted without a timeline is judged where all programs are"
grain    = "trace with kernels in the analysis window, or with counters alone"
needs    = ["trace"]
optional = ["training_window"]
[columns.trace_id]
doc = "the trace"
[columns.why_not]
doc = "why rules about training cannot judge it; NULL when they can judge a device at least"
[columns.advice]
doc = "what to do about that"
*/
SELECT trace_id, CASE WHEN bool_and(why_not IS NOT NULL) THEN min(why_not) END AS why_not,
    min(advice) AS advice
FROM training_window GROUP BY trace_id
UNION ALL
SELECT trace_id,
    CASE WHEN NOT coalesce(getvariable('assume_training'), false)
         THEN 'without a timeline nothing tells that the kernels are those of training' END,
    'collect a timeline beside the counters, in a capture directory; --set assume_training=true judges the kernels all the same'
FROM trace WHERE kind = 'metrics'
