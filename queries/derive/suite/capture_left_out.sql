/*
title    = "Traces that are not compared"
question = "Which traces have nothing to compare with other runs, and why?"
source   = "a comparison of runs needs what each did on its GPUs, or that it ran on the CPU on purpose, and a rate"
grain    = "trace that cannot be compared; metric runs that lend their counters apart"
needs    = ["trace"]
optional = ["iteration_rate", "layer_clock", "counter_donor_trace"]
[columns.trace_id]
doc = "the trace"
[columns.why]
doc = "what it lacks"
*/
SELECT trace_id, why
FROM (
    SELECT t.trace_id,
        CASE
            WHEN t.kind <> 'timeline' THEN 'no timeline was recorded'
            -- Training on the CPU says so in capture.json, or marks its layers.
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
