-- NVTX ranges: event types 59 and 70 (push/pop), 60 and 71 (start/end); 70 and 71 come from NVTX
-- text files. A row without a type is a range if it has an end. The profiler leaves a range that
-- was open when the recording ended without an end, or ends it at the very end of the session. The
-- thread that ended a range is recorded only where it is another one.
SELECT
    r.row AS nvtx_range_id,
    r.start AS start_ns,
    coalesce(r."end", greatest(r.start, ended.latest_ns)) AS end_ns,
    coalesce(r."end" = ended.session_ns, r."end" IS NULL) AS is_open,
    CASE
        WHEN r.eventType IN (60, 71) THEN range_kind('start_end') ELSE range_kind('push_pop')
    END AS kind,
    process_key(r.globalTid) AS process_id,
    r.globalTid AS thread_id,
    CASE WHEN NOT is_open THEN coalesce(r.endGlobalTid, r.globalTid) END AS end_thread_id,
    coalesce(r.domainId, 0) AS domain_id,
    domain.name AS domain,
    coalesce(r.text, registered.value) AS text,
    r.payload
FROM NVTX_EVENTS AS r
CROSS JOIN recording_end AS ended
LEFT JOIN StringIds AS registered ON registered.id = r.textId
LEFT JOIN
    _nvtx_domain AS domain
    ON domain.process_id = process_key(r.globalTid) AND domain.domain_id = r.domainId
WHERE
    r.start IS NOT NULL
    AND coalesce(
        r.eventType BETWEEN 59 AND 60 OR r.eventType BETWEEN 70 AND 71,
        r."end" IS NOT NULL
    )
