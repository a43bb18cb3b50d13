-- Calls that cannot return before a GPU operation has ended, with the last operation that each
-- waits for. Only certain cases: synchronization of a stream or context with a recorded number;
-- synchronization of a device if its process uses a single context; and blocking copies to the
-- host, which wait for themselves. `launched` is the relation of launched.sql.
WITH one_context AS (
    SELECT process_id, min(context_id) AS context_id
    FROM launched
    GROUP BY process_id
    HAVING count(DISTINCT context_id) = 1
        AND (count(DISTINCT device_id) <= 1)
),

wait AS (
    SELECT a.process_id, a.start_ns, a.end_ns, a.name LIKE '%Stream%' AS of_stream,
        coalesce(s.context_id, if(of_stream, NULL, o.context_id)) AS context_id,
        if(of_stream, s.stream_id, -1) AS stream_id
    FROM api_call AS a
    LEFT JOIN synchronization AS s
        ON s.correlation_id = a.correlation_id AND s.process_id IS NOT DISTINCT FROM a.process_id
    LEFT JOIN one_context AS o ON o.process_id IS NOT DISTINCT FROM a.process_id
    WHERE a.name IN (
        'cudaDeviceSynchronize', 'cudaThreadSynchronize', 'cuCtxSynchronize',
        'cudaStreamSynchronize', 'cuStreamSynchronize'
    )
),

awaited AS (
    SELECT coalesce(process_id, -1) AS process_id, device_id, context_id, call_end_ns, end_ns,
        unnest([-1, stream_id]) AS stream_id
    FROM launched
    WHERE call_ns IS NOT NULL
)

SELECT if(w.process_id = -1, NULL, w.process_id) AS process_id, o.device_id,
    o.end_ns AS operation_end_ns,
    w.end_ns AS wait_end_ns
FROM (SELECT * REPLACE (coalesce(process_id, -1) AS process_id) FROM wait) AS w
ASOF INNER JOIN awaited AS o
    ON o.process_id = w.process_id AND o.context_id = w.context_id AND o.stream_id = w.stream_id
    AND w.start_ns >= o.call_end_ns
UNION ALL
SELECT process_id, device_id, end_ns, call_end_ns
FROM launched
WHERE direction = 'DtoH' AND call_name IN (
    'cudaMemcpy', 'cudaMemcpy2D', 'cudaMemcpy3D', 'cudaMemcpyFromSymbol', 'cudaMemcpyFromArray',
    'cuMemcpyDtoH', 'cuMemcpyAtoH'
)
