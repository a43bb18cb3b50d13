/*
title    = "Launching threads"
question = "Which threads launch GPU operations?"
grain    = "thread with launches"
needs    = ["launch"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.thread_id]
doc = "key of the thread"
[columns.host_thread]
doc = "number of the thread"
*/
SELECT DISTINCT trace_id, process_id, thread_id, host_thread
FROM launch WHERE host_thread IS NOT NULL
