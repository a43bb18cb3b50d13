-- CPU samples. System-wide sampling includes processes that were not profiled; only profiled ones
-- are in table process.
SELECT
    s.start AS timestamp_ns,
    process_key(s.globalTid) AS process_id,
    s.globalTid AS thread_id,
    TRY_CAST(s.cpu AS INTEGER) AS cpu,
    s.cpuCycles AS cycles
FROM COMPOSITE_EVENTS AS s
WHERE s.start IS NOT NULL
