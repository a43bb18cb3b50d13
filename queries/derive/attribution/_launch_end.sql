/*
title    = "End times of launches"
question = "Which launch of each thread ended last at a given time?"
source   = """calls of a thread are sequential, so a range contains consecutive launches: from the
    first that starts in it (_launch_begin) to the last that ends in it"""
grain    = "time at which launches of a thread end"
needs    = ["launch"]
[columns]
host_thread = "number of the thread (_launch_thread)"
end_ns = "the time"
position = "position of the last launch that ends at this time (launch)"
*/
SELECT host_thread, end_ns, max(position) AS position
FROM launch WHERE host_thread IS NOT NULL
GROUP BY ALL
