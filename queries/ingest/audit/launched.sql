-- GPU operations of a timeline with their launching call, to compare GPU and host clock. For large
-- traces, one operation in `$every` is enough. The sample is drawn by a hash of the correlation id,
-- because programs launch periodically. A runtime call and the driver call inside it share an id;
-- the outer one is the launch. Reused ids are ignored, because their launch is ambiguous.
WITH operation AS (
    SELECT process_id, device_id, context_id, stream_id, correlation_id, start_ns, end_ns,
        NULL AS direction
    FROM kernel WHERE duration_ns IS NOT NULL
    UNION ALL
    SELECT process_id, device_id, context_id, stream_id, correlation_id, start_ns, end_ns,
        direction
    FROM memcpy WHERE duration_ns IS NOT NULL
    UNION ALL
    SELECT process_id, device_id, context_id, stream_id, correlation_id, start_ns, end_ns, NULL
    FROM memset WHERE duration_ns IS NOT NULL
    UNION ALL
    SELECT process_id, device_id, context_id, stream_id, correlation_id, start_ns, end_ns, NULL
    FROM graph_launch
),

call AS (
    SELECT process_id, correlation_id, min(start_ns) AS call_ns,
        arg_min(end_ns, start_ns) AS call_end_ns,
        arg_min(name, start_ns) AS call_name
    FROM api_call
    WHERE api = 'cuda' AND correlation_id IS NOT NULL AND hash(correlation_id) % $every = 0
    GROUP BY process_id, correlation_id
    HAVING max(start_ns) <= arg_min(end_ns, start_ns)
)

SELECT o.* EXCLUDE (correlation_id), c.call_ns, c.call_end_ns, c.call_name
FROM operation AS o
LEFT JOIN call AS c
    ON c.correlation_id = o.correlation_id AND c.process_id IS NOT DISTINCT FROM o.process_id
WHERE $every = 1 OR (o.correlation_id IS NOT NULL AND hash(o.correlation_id) % $every = 0)
