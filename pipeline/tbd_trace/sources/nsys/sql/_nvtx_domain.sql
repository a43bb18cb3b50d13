-- NVTX domain names. Each process numbers its domains in the order of registration, so a number
-- is only valid within its process.
SELECT
    process_key(d.globalTid) AS process_id,
    d.domainId AS domain_id,
    arg_min(coalesce(d.text, registered.value), d.start) AS name
FROM nvtx_domain_creation AS d
LEFT JOIN StringIds AS registered ON registered.id = d.textId
WHERE d.domainId <> 0
GROUP BY ALL
