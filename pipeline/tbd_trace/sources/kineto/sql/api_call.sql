-- Calls of the CUDA or HIP runtime and driver; `moved_call` has times of those in another clock.
SELECT
    event_id AS api_call_id,
    coalesce(m.start_ns, e.start_ns) AS start_ns,
    coalesce(m.end_ns, e.start_ns + e.duration_ns) AS end_ns,
    host_process(pid) AS process_id,
    TRY_CAST(tid AS BIGINT) AS thread_id,
    nullif(a.correlation, 0) AS correlation_id,
    'cuda' AS api,
    regexp_replace(name, '_v\d+$', '') AS name
FROM (
    SELECT *, json_transform(args, '{"correlation": "BIGINT"}') AS a
    FROM event WHERE kind = 'call'
) AS e
LEFT JOIN moved_call AS m USING (event_id)
