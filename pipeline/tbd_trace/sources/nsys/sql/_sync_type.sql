-- Synchronization type by Nsight Systems' number. If the file contains its own enumeration, its
-- numbers replace the usual ones.
SELECT coalesce(listed.id, usual.id) AS id, usual.sync_type
FROM (
    VALUES
        (0, 'UNKNOWN', 'unknown'),
        (1, 'EVENT_SYNCHRONIZE', 'event synchronize'),
        (2, 'STREAM_WAIT_EVENT', 'stream wait event'),
        (3, 'STREAM_SYNCHRONIZE', 'stream synchronize'),
        (4, 'CONTEXT_SYNCHRONIZE', 'context synchronize')
) AS usual (id, name, sync_type)
LEFT JOIN
    ENUM_CUPTI_SYNC_TYPE AS listed
    ON listed.name = 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_' || usual.name
WHERE listed.id IS NOT NULL OR NOT EXISTS (SELECT 1 FROM ENUM_CUPTI_SYNC_TYPE)
