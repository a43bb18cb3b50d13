-- Calls and ROCTX ranges of host threads, with the columns of rocpd/call.sql.
SELECT
    c.part,
    c.number AS id,
    p.pid,
    c.thread_id AS tid,
    c.start_ns,
    c.end_ns,
    upper(coalesce(o.category, '')) AS category,
    o.operation_name AS operation,
    c.call_id,
    c.parent_id,
    m.message
FROM json_call AS c
LEFT JOIN json_process AS p ON p.part = c.part
LEFT JOIN json_operation AS o
    ON o.part = c.part AND o.kind = c.kind AND o.operation = c.operation
LEFT JOIN json_message AS m ON m.part = c.part AND m.call_id = c.call_id
