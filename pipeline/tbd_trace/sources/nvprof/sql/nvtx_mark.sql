-- NVTX marks: markers with the flag 1 (instantaneous). For domain_id see nvtx_range.
SELECT
    m.timestamp AS timestamp_ns,
    if(m.objectKind IN (1, 2), m.object_process, NULL) AS process_id,
    if(m.objectKind = 2, m.object_thread, NULL) AS thread_id,
    coalesce(m.domain, 0) AS domain_id,
    d.value AS domain,
    s.value AS text
FROM CUPTI_ACTIVITY_KIND_MARKER AS m
LEFT JOIN StringTable AS s ON s._id_ = m.name AND m.name <> 0
LEFT JOIN StringTable AS d ON d._id_ = m.domain AND m.domain <> 0
WHERE m.flags & 1 <> 0 AND m.timestamp > 0
