/*
title    = "Processes, threads and devices"
question = "What are the names and ids of the processes, threads and devices of a timeline?"
grain    = "process, thread of a process, or device of a process"
needs    = ["trace"]
optional = ["process", "thread", "device"]
[columns]
place = "process, thread or device"
process_id = "key of the process; NULL for a device that all processes share"
place_id = "key of the process or thread, or number of the device"
number = "operating-system process id or thread id; NULL for a device and when unknown"
name = "name; NULL when unknown"
*/
SELECT 'process' AS place, process_id, process_id AS place_id, pid AS number, name FROM process
UNION ALL
SELECT 'thread', process_id, thread_id, tid, name FROM thread
UNION ALL
SELECT 'device', process_id, device_id, NULL, name FROM device
ORDER BY place, process_id, place_id, number, name
