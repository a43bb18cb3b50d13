-- How many kernels have no launching call in the trace, from the canonical tables.
SELECT count(*)
FROM (SELECT process_id, correlation_id FROM kernel WHERE correlation_id IS NOT NULL) AS k
ANTI JOIN (
    SELECT process_id, correlation_id
    FROM api_call
    WHERE api = 'cuda' AND correlation_id IS NOT NULL
) AS c
    ON c.correlation_id = k.correlation_id AND c.process_id IS NOT DISTINCT FROM k.process_id
