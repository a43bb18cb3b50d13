SELECT
    event_id AS synchronization_id,
    start_ns,
    start_ns + duration_ns AS end_ns,
    gpu_process(a.correlation, event_id) AS process_id,
    coalesce(a.device, TRY_CAST(pid AS BIGINT)) AS device_id,
    a.context AS context_id,
    coalesce(a.stream, stream_number(tid)) AS stream_id,
    nullif(a.correlation, 0) AS correlation_id,
    CASE lower(coalesce(a.cuda_sync_kind, name))
        WHEN 'event sync' THEN 'event synchronize'
        WHEN 'event synchronize' THEN 'event synchronize'
        WHEN 'stream wait event' THEN 'stream wait event'
        WHEN 'stream sync' THEN 'stream synchronize'
        WHEN 'stream synchronize' THEN 'stream synchronize'
        WHEN 'context sync' THEN 'context synchronize'
        WHEN 'context synchronize' THEN 'context synchronize'
        ELSE 'unknown'
    END AS sync_type
FROM (
    SELECT *, json_transform(args, '{
        "device": "BIGINT", "context": "BIGINT", "stream": "BIGINT", "correlation": "BIGINT",
        "cuda_sync_kind": "VARCHAR"}') AS a
    FROM event WHERE kind = 'synchronization'
)
