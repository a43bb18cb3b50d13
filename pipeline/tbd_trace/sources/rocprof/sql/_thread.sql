-- Threads of all records.
SELECT DISTINCT part, pid, tid FROM (
    SELECT part, pid, tid FROM record_call
    UNION ALL
    SELECT part, pid, tid FROM record_dispatch
    UNION ALL
    SELECT part, pid, tid FROM record_copy
)
