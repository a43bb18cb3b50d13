-- Kernels with and without a launching call, and how soon after it they start: one look at all launches,
-- from the canonical tables as read, that tells whether others are worth it. Where `early` is 0 and the
-- shortest lag below 50 us, the GPU's clock is neither behind the host's nor ahead of it. Where `pairs`
-- sums up to no more than the kernels, no correlation id was used twice. (Times may still be at the ends
-- of 64 bits, so that their difference is none.)
SELECT k.process_id, k.device_id, count(*) AS pairs,
    count(*) FILTER (k.correlation_id IS NOT NULL AND c.start_ns IS NULL) AS unlaunched,
    min(TRY(k.start_ns - c.start_ns)) AS shortest_ns,
    count(*) FILTER (TRY(k.start_ns - c.start_ns) < -50000) AS early
FROM kernel AS k
LEFT JOIN (
    SELECT process_id, correlation_id, start_ns
    FROM api_call
    WHERE api = 'cuda' AND correlation_id IS NOT NULL
) AS c
    ON c.correlation_id = k.correlation_id AND c.process_id IS NOT DISTINCT FROM k.process_id
GROUP BY k.process_id, k.device_id
