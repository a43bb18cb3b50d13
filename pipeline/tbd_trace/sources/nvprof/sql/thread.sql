-- Threads. On Windows, CUPTI's thread id is that of the operating system. On Linux it is the low
-- half of the pthread handle, which exceeds the largest operating-system id (2^22).
SELECT
    h.process_id,
    h.thread_id,
    if(h.thread_id < 4194304, h.thread_id, NULL) AS tid,
    any_value(s.value) AS name
FROM host_thread AS h
LEFT JOIN CUPTI_ACTIVITY_KIND_NAME AS n
    ON n.objectKind = 2
    AND n.object_process = h.process_id
    AND n.object_thread = h.thread_id
    AND n.name <> 0
LEFT JOIN StringTable AS s ON s._id_ = n.name
WHERE h.thread_id IS NOT NULL
GROUP BY h.process_id, h.thread_id
