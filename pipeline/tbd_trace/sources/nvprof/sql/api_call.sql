-- CUDA runtime and driver calls. The file contains callback numbers; cupti_callbacks names them.
-- nvprof does not record driver calls made inside runtime calls: the correlation ids of the two
-- tables are distinct, and no call counts twice. Thread ids are stored as signed 32-bit numbers. A
-- call that never returned has no end and becomes an instant.
WITH calls AS (
    SELECT 0 AS source, 'driver' AS domain, * FROM CUPTI_ACTIVITY_KIND_DRIVER
    UNION ALL BY NAME
    SELECT 1 AS source, 'runtime' AS domain, * FROM CUPTI_ACTIVITY_KIND_RUNTIME
)

SELECT
    row_number() OVER (ORDER BY c.source, c._id_) AS api_call_id,
    c.start AS start_ns,
    coalesce(nullif(c."end", 0), c.start) AS end_ns,
    c.processId AS process_id,
    c.threadId & 4294967295 AS thread_id,
    nullif(c.correlationId, 0) AS correlation_id,
    'cuda' AS api,
    coalesce(n.name, format('{} callback {}', c.domain, c.cbid)) AS name
FROM calls AS c
LEFT JOIN cupti_callbacks AS n ON n.domain = c.domain AND n.cbid = c.cbid
WHERE c.start > 0
