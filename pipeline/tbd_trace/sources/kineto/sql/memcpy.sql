-- Copies. Direction and kinds of memory are in the name: "Memcpy HtoD (Pinned -> Device)".
SELECT
    event_id AS memcpy_id,
    start_ns,
    start_ns + duration_ns AS end_ns,
    duration_ns,
    gpu_process(a.correlation, event_id) AS process_id,
    coalesce(a.device, if(a."Task Type" IS NULL, TRY_CAST(pid AS BIGINT), 0)) AS device_id,
    a.context AS context_id,
    coalesce(a.stream, stream_number(tid)) AS stream_id,
    nullif(a.correlation, 0) AS correlation_id,
    a.bytes,
    coalesce(nullif(regexp_extract(name || ' ' || coalesce(a.kind, ''),
        '\b([HDAP]to[HDAP])\b', 1), ''), 'unknown') AS direction,
    memory_kind(regexp_extract(name, '\(\s*(.+?)\s*->', 1)) AS src_kind,
    memory_kind(regexp_extract(name, '->\s*(.+?)\s*\)', 1)) AS dst_kind
FROM (
    SELECT *, json_transform(args, '{
        "device": "BIGINT", "context": "BIGINT", "stream": "BIGINT", "correlation": "BIGINT",
        "bytes": "BIGINT", "kind": "VARCHAR", "Task Type": "VARCHAR"}') AS a
    FROM event WHERE kind = 'memcpy'
)
