-- Kernels that overlap an earlier one of their stream (`suspect`, see overlap.sql) by more than 100
-- us, or by more than 10 us and half of the shorter kernel. Smaller overlaps are possible:
-- programmatic dependent launch starts a kernel a little early. A kernel also runs concurrently
-- with kernels that it launched, which share its correlation id.
SELECT count(DISTINCT s.kernel_id) AS kernels, count(DISTINCT e.kernel_id) AS earlier,
    arg_max(e.name, (e.end_ns - e.start_ns, e.kernel_id)) AS worst_name,
    max(e.end_ns - e.start_ns) AS worst_ns
FROM suspect AS s
INNER JOIN kernel AS k ON k.kernel_id = s.kernel_id
INNER JOIN kernel AS e
    ON e.end_ns = s.earlier_end_ns AND e.stream_id = s.stream_id
    AND e.process_id IS NOT DISTINCT FROM s.process_id
    AND e.device_id IS NOT DISTINCT FROM s.device_id
    AND e.context_id IS NOT DISTINCT FROM s.context_id
    AND e.kernel_id <> s.kernel_id AND e.start_ns <= s.start_ns
WHERE
    least(s.end_ns, e.end_ns) - s.start_ns
    > least(100000, greatest(10000, least(s.end_ns - s.start_ns, e.end_ns - e.start_ns) // 2))
    AND (k.correlation_id = e.correlation_id) IS NOT TRUE
