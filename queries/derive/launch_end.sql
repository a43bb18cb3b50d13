/*
title    = "Ends of launches"
question = "Which is the last launch that each thread has ended by then?"
source   = "the calls of a thread follow each other, so a range holds a run of them: from the first that begins at or after its start (launch_begin) to the last that ends by its end"
grain    = "one instant at which launches of a thread end"
needs    = ["launch", "launch_thread"]
[columns.host_thread]
doc = "number of the thread (launch_thread)"
[columns.end_ns]
unit = "ns"
doc = "the instant"
[columns.position]
doc = "position (launch) of the last launch that ends then"
*/
SELECT h.host_thread, l.end_ns, max(l.position) AS position
FROM launch l
JOIN launch_thread h
    ON  h.trace_id = l.trace_id AND h.process_id IS NOT DISTINCT FROM l.process_id
    AND h.thread_id = l.thread_id
GROUP BY ALL
