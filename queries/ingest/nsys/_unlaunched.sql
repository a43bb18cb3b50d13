-- How many kernels have no launching call in the trace, from the canonical tables.
SELECT count(*)
FROM kernel AS k
WHERE
    k.correlation_id IS NOT NULL
    AND NOT EXISTS (
        SELECT 1
        FROM api_call AS c
        WHERE
            c.api = 'cuda'
            AND c.correlation_id = k.correlation_id
            AND c.process_id IS NOT DISTINCT FROM k.process_id
    )
