-- Ranges and marks of ROCTX, whose record of a range has both ends, and calls of RCCL and other
-- libraries, in their own domains. Calls of ROCTX without a text mark nothing.
SELECT
    row_number() OVER (ORDER BY c.part, c.start_ns, c.id) AS annotation_id,
    'nvtx' AS source,
    CASE
        -- A sample of an older schema has no operation.
        WHEN c.is_marker AND coalesce(c.operation LIKE 'roctxMark%', c.start_ns = c.end_ns)
            THEN 'mark'
        WHEN c.operation LIKE 'roctxProcessRange%' OR c.operation LIKE 'roctxRangeStart%'
            THEN 'start_end'
        ELSE 'push_pop'
    END AS kind,
    c.start_ns,
    c.end_ns,
    false AS is_open,
    key_of(c.part, coalesce(p.pid, c.pid)) AS process_id,
    key_of(c.part, coalesce(t.tid, c.tid)) AS thread_id,
    key_of(c.part, coalesce(t.tid, c.tid)) AS end_thread_id,
    if(c.is_marker, 0, 1 + hash(c.category) % 1000000)::BIGINT AS domain_id,
    CASE WHEN NOT c.is_marker THEN regexp_replace(c.category, '_API.*', '') END AS domain,
    if(c.is_marker, c.message, c.operation) AS text
FROM (
    SELECT *, contains(category, 'MARKER') AS is_marker FROM record_call
    WHERE category NOT SIMILAR TO 'H(IP|SA).*' AND end_ns >= start_ns AND start_ns > 0
) AS c
LEFT JOIN record_process AS p ON p.part = c.part AND p.id = c.pid
LEFT JOIN record_thread AS t ON t.part = c.part AND t.id = c.tid
WHERE if(c.is_marker,
    c.message IS NOT NULL AND coalesce(c.operation, '') NOT LIKE 'roctxGet%',
    c.operation IS NOT NULL)
