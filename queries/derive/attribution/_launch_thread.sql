/*
title    = "Launching threads"
question = "Which threads launch GPU operations?"
grain    = "thread with launches"
needs    = ["launch"]
returns = ["trace_id", "process_id", "thread_id", "host_thread"]
[columns]
host_thread = "number of the thread"
*/
SELECT DISTINCT trace_id, process_id, thread_id, host_thread
FROM launch WHERE host_thread IS NOT NULL
