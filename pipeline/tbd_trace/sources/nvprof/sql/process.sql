-- Processes: whoever called CUDA or NVTX, or is named. nvprof's name of a process is its command
-- line from the last slash on; options are left out, since they may hold secrets.
SELECT
    h.process_id,
    h.process_id AS pid,
    any_value(regexp_replace(s.value, '\s-.*$', '')) AS name
FROM host_thread AS h
LEFT JOIN CUPTI_ACTIVITY_KIND_NAME AS n
    ON n.objectKind = 1 AND n.object_process = h.process_id AND n.name <> 0
LEFT JOIN StringTable AS s ON s._id_ = n.name
GROUP BY h.process_id
