-- API calls, without the rows that are not calls: start, finish and error marks of the profiler
-- (event classes 10-12 CUDA, 31-32 operating system, 33-34 cuDNN, 35-36 cuBLAS) and classes 67-69,
-- which repeat a CUDA call under another correlation id to attach a backtrace.
SELECT
    -- Row numbers repeat across the four tables; 4 * row + table number is unique.
    4 * c.row + c.number AS api_call_id,
    c.start AS start_ns,
    c."end" AS end_ns,
    process_key(c.globalTid) AS process_id,
    c.globalTid AS thread_id,
    nullif(c.correlationId, 0) AS correlation_id,
    c.api,
    coalesce(
        CASE WHEN c.api = 'osrt' THEN function.name ELSE function.unversioned END,
        CAST('unknown' AS _name_text)
    ) AS name
FROM (
    SELECT 0 AS number, api_name('cuda') AS api, * FROM CUPTI_ACTIVITY_KIND_RUNTIME
    UNION ALL BY NAME
    SELECT 1 AS number, api_name('cudnn') AS api, * FROM CUDNN_EVENTS
    UNION ALL BY NAME
    SELECT 2 AS number, api_name('cublas') AS api, * FROM CUBLAS_EVENTS
    UNION ALL BY NAME
    SELECT 3 AS number, api_name('osrt') AS api, * FROM OSRT_API
) AS c
LEFT JOIN _name AS function ON function.id = c.nameId
WHERE
    c.start IS NOT NULL
    AND c."end" IS NOT NULL
    AND coalesce(c.eventClass, 0) NOT IN (10, 11, 12, 31, 32, 33, 34, 35, 36, 67, 68, 69)
