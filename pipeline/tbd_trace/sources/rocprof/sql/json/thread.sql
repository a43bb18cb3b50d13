-- Threads have no names.
SELECT NULL::BIGINT AS part, NULL::BIGINT AS id, NULL::BIGINT AS tid, NULL::VARCHAR AS name
WHERE false
