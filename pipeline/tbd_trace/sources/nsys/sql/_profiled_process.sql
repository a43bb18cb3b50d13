-- Processes with traced activity. CPU samples do not count: system-wide sampling includes all
-- processes of the machine.
SELECT DISTINCT process_id
FROM (
    SELECT process_key(globalPid) AS process_id FROM operation_scope
    UNION ALL
    SELECT process_key(globalTid) AS process_id FROM calling_thread
)
WHERE process_id IS NOT NULL
