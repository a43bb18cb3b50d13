/*
title    = "Threads that launch"
question = "Which threads launch GPU operations?"
grain    = "one thread that launches"
needs    = ["launch"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.host_thread]
doc = "number of the thread, by which launches and ranges are sorted and joined"
*/
-- What is kept for the next question has these numbers in it: they must come out alike every time.
SELECT trace_id, process_id, thread_id,
    row_number() OVER (ORDER BY trace_id, process_id, thread_id) AS host_thread
FROM (SELECT DISTINCT trace_id, process_id, thread_id FROM launch WHERE thread_id IS NOT NULL)
