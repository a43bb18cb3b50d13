-- Processes; the name is that of the executable.
SELECT DISTINCT
    key_of(part, pid) AS process_id,
    pid,
    nullif(regexp_extract(command, '^\s*(?:\S*/)?(\S+)', 1), '') AS name
FROM record_process
