-- Correlation ids that a process used for several launches: CUPTI counts in 32 bits. A driver call
-- inside a runtime call shares its id and is the same launch.
SELECT count(*) AS ids
FROM (
    SELECT process_id, correlation_id
    FROM api_call
    WHERE api = 'cuda' AND correlation_id IS NOT NULL
    GROUP BY process_id, correlation_id
    HAVING count(*) > 1 AND max(start_ns) > arg_min(end_ns, start_ns)
) AS c
SEMI JOIN kernel AS k
    ON k.correlation_id = c.correlation_id AND k.process_id IS NOT DISTINCT FROM c.process_id
