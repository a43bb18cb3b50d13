SELECT
    h.process_id,
    h.thread_id,
    h.thread_id AS tid,
    first(json_extract_string(m.args, '$.name') ORDER BY m.event_id) AS name
FROM host_thread AS h
LEFT JOIN event AS m
    ON m.kind = 'thread_name' AND host_process(m.pid) = h.process_id
    AND TRY_CAST(m.tid AS BIGINT) = h.thread_id
WHERE h.thread_id IS NOT NULL
GROUP BY h.process_id, h.thread_id
ORDER BY h.process_id, h.thread_id
