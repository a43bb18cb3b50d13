-- Processes. Other tables name them by `id`.
SELECT part, id, coalesce(pid, id) AS pid, command FROM raw_info_process
