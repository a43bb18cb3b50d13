/*
title    = "Ends of launches"
question = "Which is the last launch that each thread has ended by then?"
source   = "the calls of a thread follow each other, so a range holds a run of them: from the first that begins at or after its start (_launch_begin) to the last that ends by its end"
grain    = "one instant at which launches of a thread end"
needs    = ["launch"]
[columns.host_thread]
doc = "number of the thread (_launch_thread)"
[columns.end_ns]
unit = "ns"
doc = "the instant"
[columns.position]
doc = "position (launch) of the last launch that ends then"
*/
SELECT host_thread, end_ns, max(position) AS position
FROM launch WHERE host_thread IS NOT NULL
GROUP BY ALL
