-- NVTX marks: event types 34 and 65 (the latter from NVTX text files).
SELECT
    m.start AS timestamp_ns,
    process_key(m.globalTid) AS process_id,
    m.globalTid AS thread_id,
    coalesce(m.domainId, 0) AS domain_id,
    domain.name AS domain,
    coalesce(m.text, registered.value) AS text
FROM NVTX_EVENTS AS m
LEFT JOIN StringIds AS registered ON registered.id = m.textId
LEFT JOIN
    _nvtx_domain AS domain
    ON domain.process_id = process_key(m.globalTid) AND domain.domain_id = m.domainId
WHERE m.eventType IN (34, 65) AND m.start IS NOT NULL
