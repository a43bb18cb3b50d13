-- The profiled processes. PROCESSES lists every process of the machine: the others stay out. A
-- launcher of the profiler's own stands where the program's name was not seen.
SELECT
    p.process_id,
    coalesce(min(named.pid), process_number(p.process_id)) AS pid,
    min(named.name) FILTER (named.name NOT IN ('', 'nsys-launcher', 'ProcessLauncher')) AS name
FROM _profiled_process AS p
LEFT JOIN PROCESSES AS named ON process_key(named.globalPid) = p.process_id
GROUP BY p.process_id
ORDER BY p.process_id
