-- Copies between agents, with the columns of rocpd/copy.sql.
SELECT
    c.part,
    c.number AS id,
    p.pid,
    c.thread_id AS tid,
    c.stream_id,
    c.src_agent_id,
    c.dst_agent_id,
    c.start_ns,
    c.end_ns,
    c.bytes,
    o.operation_name AS operation,
    c.call_id
FROM json_copy AS c
LEFT JOIN json_process AS p ON p.part = c.part
LEFT JOIN json_operation AS o
    ON o.part = c.part AND o.kind = c.kind AND o.operation = c.operation
