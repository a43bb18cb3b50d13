-- How many kernels have no launching call in the trace, from the canonical tables. The calls, of which
-- there are more, are streamed past the kernels.
WITH launched AS (
    SELECT process_id, correlation_id, count(*) AS kernels
    FROM kernel
    WHERE correlation_id IS NOT NULL
    GROUP BY ALL
),

found AS (
    SELECT DISTINCT k.process_id, k.correlation_id, k.kernels
    FROM api_call AS c
    INNER JOIN
        launched AS k
        ON
            k.correlation_id = c.correlation_id
            AND k.process_id IS NOT DISTINCT FROM c.process_id
    WHERE c.api = 'cuda'
)

SELECT
    (SELECT coalesce(sum(kernels), 0) FROM launched) - (SELECT coalesce(sum(kernels), 0) FROM found)
