/*
title    = "Beginnings of launches"
question = "Which launch does each thread begin next, and what holds that one alone?"
source   = "the calls of a thread follow each other, so a range holds a run of them: from the first that begins at or after its start to the last that ends by its end (_launch_end)"
grain    = "one instant at which launches of a thread begin"
needs    = ["launch", "_launch_end"]
[columns.host_thread]
doc = "number of the thread (_launch_thread)"
[columns.start_ns]
unit = "ns"
doc = "the instant"
[columns.position]
doc = "position (launch) of the first launch that begins then"
[columns.end_ns]
unit = "ns"
doc = "when it ends: a range that begins before it and ends from then on, but before next_end_ns, holds it alone; NULL where a later launch ends at the same time"
[columns.next_end_ns]
unit = "ns"
doc = "when a launch of the thread ends next; NULL after the last"
*/
WITH
lasting AS (
    SELECT *, lead(end_ns) OVER (PARTITION BY host_thread ORDER BY end_ns) AS next_end_ns
    FROM _launch_end
)
SELECT f.host_thread, f.start_ns, f.position, e.end_ns, e.next_end_ns
FROM (
    SELECT host_thread, start_ns, min(position) AS position
    FROM launch WHERE host_thread IS NOT NULL
    GROUP BY ALL
) f
LEFT JOIN lasting e ON e.host_thread = f.host_thread AND e.position = f.position
