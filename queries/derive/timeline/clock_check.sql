/*
title    = "Clocks of GPU and host"
question = "Can the times of the GPU be compared with those of the host?"
source   = "an operation starts after its launching call began; the GPU's clock is put on the host's at ingest (trace.notes), where that can be done"
grain    = "one device used by a process"
needs    = ["trace", "op_scope"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; NULL when unknown"
[columns.device_id]
doc = "device; NULL when unknown"
[columns.launches]
doc = "operations whose launch is recorded"
[columns.early]
doc = "those that start more than 50 µs before it"
[columns.shortest_ns]
unit = "ns"
doc = "shortest time from the beginning of a launch to the start of its operation; NULL without launches"
[columns.agrees]
doc = "the clocks agree as far as can be known: at most one launch in a hundred is after its operation's start, some operation starts within a second of its launch, and ingest found nothing else"
[columns.reason]
doc = "why they do not; NULL when they do"
*/
WITH
lag AS (
    SELECT trace_id, process_id, device_id, count(launch_start_ns) AS launches,
        count(*) FILTER (start_ns < launch_start_ns - 50000) AS early,
        min(start_ns - launch_start_ns) AS shortest_ns
    FROM op_scope GROUP BY trace_id, process_id, device_id
)
SELECT trace_id, process_id, device_id, launches, early, shortest_ns, reason IS NULL AS agrees, reason
FROM (
    SELECT l.*,
        CASE
            WHEN len(list_filter(t.notes,
                    lambda note: starts_with(note, 'GPU and host clocks do not agree'))) > 0
                THEN 'GPU and host clocks do not agree (see the notes of the trace)'
            WHEN l.early > l.launches / 100
                THEN 'GPU and host clocks do not agree: operations start before their launch'
            WHEN l.shortest_ns > 1000000000
                THEN 'GPU and host clocks do not agree: no operation starts within a second of its launch'
        END AS reason
    FROM lag l
    JOIN trace t USING (trace_id)
)
