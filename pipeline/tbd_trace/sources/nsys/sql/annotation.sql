-- NVTX ranges: event types 59 and 70 (push/pop), 60 and 71 (start/end); marks: 34 and 65. Types 65,
-- 70 and 71 come from NVTX text files. A row without a type is a range if it has an end. For a
-- range
-- that was open at the end of the recording, the profiler writes no end or the end of the session.
-- It writes the thread that ended a range only if that is another thread.
SELECT
    r.row AS annotation_id,
    annotation_source('nvtx') AS source,
    r.start AS start_ns,
    CASE
        WHEN is_mark(r.eventType) THEN r.start
        ELSE coalesce(r."end", greatest(r.start, ended.latest_ns))
    END AS end_ns,
    NOT is_mark(r.eventType) AND coalesce(r."end" = ended.session_ns, r."end" IS NULL) AS is_open,
    CASE
        WHEN is_mark(r.eventType) THEN annotation_kind('mark')
        WHEN r.eventType IN (60, 71) THEN annotation_kind('start_end')
        ELSE annotation_kind('push_pop')
    END AS kind,
    process_key(r.globalTid) AS process_id,
    r.globalTid AS thread_id,
    CASE
        WHEN NOT is_mark(r.eventType) AND NOT is_open THEN coalesce(r.endGlobalTid, r.globalTid)
    END AS end_thread_id,
    coalesce(r.domainId, 0) AS domain_id,
    domain.name AS domain,
    coalesce(r.text, registered.value) AS text,
    CASE WHEN NOT is_mark(r.eventType) THEN r.payload END AS payload
FROM NVTX_EVENTS AS r
CROSS JOIN recording_end AS ended
LEFT JOIN StringIds AS registered ON registered.id = r.textId
LEFT JOIN
    _nvtx_domain AS domain
    ON domain.process_id = process_key(r.globalTid) AND domain.domain_id = r.domainId
WHERE
    r.start IS NOT NULL
    AND coalesce(r.eventType IN (34, 59, 60, 65, 70, 71), r."end" IS NOT NULL)
