-- Fills. The kind of memory is in the name: "Memset (Device)".
SELECT
    event_id AS memset_id,
    start_ns,
    start_ns + duration_ns AS end_ns,
    duration_ns,
    gpu_process(a.correlation, event_id) AS process_id,
    coalesce(a.device, TRY_CAST(pid AS BIGINT)) AS device_id,
    a.context AS context_id,
    coalesce(a.stream, stream_number(tid)) AS stream_id,
    nullif(a.correlation, 0) AS correlation_id,
    a.bytes,
    memory_kind(regexp_extract(name, '\(\s*(.+?)\s*\)', 1)) AS memory_kind
FROM (
    SELECT *, json_transform(args, '{
        "device": "BIGINT", "context": "BIGINT", "stream": "BIGINT", "correlation": "BIGINT",
        "bytes": "BIGINT"}') AS a
    FROM event WHERE kind = 'memset'
)
