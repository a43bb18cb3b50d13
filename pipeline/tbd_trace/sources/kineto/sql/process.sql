SELECT DISTINCT
    h.process_id,
    h.process_id AS pid,
    first(json_extract_string(m.args, '$.name') ORDER BY m.event_id) AS name
FROM host_thread AS h
LEFT JOIN event AS m ON m.kind = 'process_name' AND host_process(m.pid) = h.process_id
WHERE h.process_id IS NOT NULL
GROUP BY h.process_id
ORDER BY h.process_id
