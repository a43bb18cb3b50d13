-- Threads of all records.
SELECT DISTINCT
    key_of(r.part, coalesce(p.pid, r.pid)) AS process_id,
    key_of(r.part, coalesce(t.tid, r.tid)) AS thread_id,
    coalesce(t.tid, r.tid) AS tid,
    t.name
FROM _thread AS r
LEFT JOIN record_process AS p ON p.part = r.part AND p.id = r.pid
LEFT JOIN record_thread AS t ON t.part = r.part AND t.id = r.tid
WHERE r.tid IS NOT NULL
