-- Calls of HIP, and of HSA below it.
SELECT
    row_number() OVER (ORDER BY c.part, c.start_ns, c.id) AS api_call_id,
    c.start_ns,
    c.end_ns,
    key_of(c.part, coalesce(p.pid, c.pid)) AS process_id,
    key_of(c.part, coalesce(t.tid, c.tid)) AS thread_id,
    nullif(c.call_id, 0) AS correlation_id,
    'cuda' AS api,
    c.operation AS name
FROM record_call AS c
LEFT JOIN record_process AS p ON p.part = c.part AND p.id = c.pid
LEFT JOIN record_thread AS t ON t.part = c.part AND t.id = c.tid
WHERE c.category SIMILAR TO 'H(IP|SA).*' AND c.operation IS NOT NULL AND c.end_ns >= c.start_ns
    AND c.start_ns > 0
