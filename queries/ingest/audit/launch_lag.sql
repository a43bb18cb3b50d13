-- Kernels with and without a launching call, and the shortest time from launch to start, in one
-- pass over the canonical tables. It decides whether the slower rules run: if `early` is 0 and the
-- shortest lag below 50 us, the GPU clock is neither behind nor ahead of the host clock; if `pairs`
-- sums up to no more than the number of kernels, no correlation id was reused. TRY: implausible
-- times can differ by more than 64 bits.
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
