/*
title    = "Traces excluded from comparisons"
question = "Which traces cannot be compared with other runs, and why?"
source   = "a comparison needs GPU work, or a recorded choice of the CPU, and a rate"
grain    = "trace that cannot be compared; metric runs of a capture with a timeline are not listed"
needs    = ["trace"]
optional = ["iteration_rate", "layer_clock", "counter_donor_trace"]
[columns]
trace_id = "the trace"
why = "missing contents"
*/
SELECT trace_id, why
FROM (
    SELECT t.trace_id,
        CASE
            WHEN t.kind <> 'timeline' THEN 'no timeline was recorded'
            -- Training on a CPU is recorded in capture.json, or marks its layers.
            WHEN NOT list_has_any(t.holds, ['kernel', 'graph_launch', 'memcpy', 'memset'])
                AND t.capture ->> '$.device' IS DISTINCT FROM 'cpu'
                AND t.trace_id NOT IN (SELECT trace_id FROM layer_clock WHERE clock = 'host')
                THEN 'no GPU work was recorded'
            WHEN t.trace_id NOT IN (SELECT trace_id FROM iteration_rate)
                AND t.capture ->> '$.throughput.samples_per_second' IS NULL
                THEN 'no iterations are known'
        END AS why
    FROM trace t
    WHERE t.trace_id NOT IN (SELECT trace_id FROM counter_donor_trace)
)
WHERE why IS NOT NULL
