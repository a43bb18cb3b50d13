-- Ranges of buckets of gradients. Their texts are registered: without one, no event is read.
SELECT
    r.row AS record_id,
    'bucket' AS source,
    described.kind,
    r.start AS start_ns,
    r."end" AS end_ns,
    process_key(r.globalTid) AS process_id,
    r.globalTid AS thread_id,
    described.bytes,
    described.bucket
FROM NVTX_EVENTS AS r
JOIN _bucket_text AS described ON described.id = r.textId
WHERE r."end" >= r.start
