-- Profiled processes. PROCESSES lists all processes of the machine. If the profiler did not see the
-- program's name, it lists its own launcher instead, which is not used as a name.
SELECT
    p.process_id,
    coalesce(min(named.pid), process_number(p.process_id)) AS pid,
    min(named.name) FILTER (named.name NOT IN ('', 'nsys-launcher', 'ProcessLauncher')) AS name
FROM _profiled_process AS p
LEFT JOIN PROCESSES AS named ON process_key(named.globalPid) = p.process_id
GROUP BY p.process_id
ORDER BY p.process_id
