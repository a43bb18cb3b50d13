-- Processes: one for each recording.
SELECT part, pid AS id, pid, command FROM json_process WHERE pid IS NOT NULL
