/*
title    = "Moments of a memory history"
question = "After which event is the peak, and at which event did an allocation fail?"
source   = "the last failure of a memory space counts"
grain    = "moment of a memory space"
needs    = ["peak_memory"]
optional = ["failed_allocation"]
returns  = ["trace_id", "space", "moment", "sequence", "timestamp_ns"]
[columns]
moment = "peak or failure"
sequence = "event after which the state counts; -1 is before the first event"
timestamp_ns = "time of that event; NULL when unknown"
*/
SELECT trace_id, space, 'peak' AS moment, coalesce(sequence, -1) AS sequence, timestamp_ns
FROM peak_memory
UNION ALL
SELECT trace_id, space, 'failure', max(sequence), arg_max(timestamp_ns, sequence)
FROM failed_allocation
WHERE space IN (SELECT space FROM peak_memory)
GROUP BY trace_id, space
