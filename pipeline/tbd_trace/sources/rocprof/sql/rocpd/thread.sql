-- Threads. Other tables name them by `id`.
SELECT part, id, coalesce(tid, id) AS tid, nullif(name, '') AS name FROM raw_info_thread
