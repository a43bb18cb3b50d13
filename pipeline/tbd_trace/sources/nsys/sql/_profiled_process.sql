-- Processes that did something the profiler traces. CPU samples do not count: with system-wide
-- sampling they come from everybody's processes.
SELECT DISTINCT process_id
FROM (
    SELECT process_key(globalPid) AS process_id FROM operation_scope
    UNION ALL
    SELECT process_key(globalTid) AS process_id FROM calling_thread
)
WHERE process_id IS NOT NULL
