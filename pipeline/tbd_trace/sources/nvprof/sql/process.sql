-- Processes that called CUDA or NVTX, or have a name. nvprof names a process by its command line
-- after the last slash; options are removed because they may contain secrets.
SELECT
    h.process_id,
    h.process_id AS pid,
    any_value(regexp_replace(s.value, '\s-.*$', '')) AS name
FROM host_thread AS h
LEFT JOIN CUPTI_ACTIVITY_KIND_NAME AS n
    ON n.objectKind = 1 AND n.object_process = h.process_id AND n.name <> 0
LEFT JOIN StringTable AS s ON s._id_ = n.name
GROUP BY h.process_id
