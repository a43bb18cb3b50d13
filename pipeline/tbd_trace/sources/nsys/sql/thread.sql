-- Threads that called an API or NVTX, and sampled threads of profiled processes. If a thread has
-- several names, the smallest priority wins: 0 from the program, 10 from the profiler, 20 from the
-- operating system.
SELECT
    process_key(seen.globalTid) AS process_id,
    seen.globalTid AS thread_id,
    thread_number(seen.globalTid) AS tid,
    arg_min(name.value, coalesce(named.priority, 100)) AS name
FROM (
    SELECT globalTid FROM calling_thread
    UNION
    SELECT sampled.globalTid
    FROM sampled_thread AS sampled
    INNER JOIN _profiled_process AS p ON p.process_id = process_key(sampled.globalTid)
) AS seen
LEFT JOIN ThreadNames AS named ON named.globalTid = seen.globalTid
LEFT JOIN StringIds AS name ON name.id = named.nameId
GROUP BY seen.globalTid
ORDER BY seen.globalTid
