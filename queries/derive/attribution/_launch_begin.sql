/*
title    = "Start times of launches"
question = "Which launch starts next on each thread, and which ranges contain that launch alone?"
source   = """calls of a thread are sequential, so a range contains consecutive launches: from the
    first that starts in it to the last that ends in it (_launch_end)"""
grain    = "time at which launches of a thread start"
needs    = ["launch", "_launch_end"]
[columns]
host_thread = "number of the thread (_launch_thread)"
start_ns = "the time"
position = "position of the first launch that starts at this time (launch)"
end_ns = """end of that launch: a range that starts before it and ends at or after this time, but
    before next_end_ns, contains it alone; NULL if a later launch ends at the same time"""
next_end_ns = "next end of a launch on the thread; NULL after the last"
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
