-- Executions of kernels, with the columns of rocpd/dispatch.sql.
SELECT
    d.part,
    d.id,
    p.pid,
    d.thread_id AS tid,
    d.agent_id,
    d.kernel_id,
    coalesce(d.stream_id, d.queue_id) AS stream_id,
    d.start_ns,
    d.end_ns,
    d.private_bytes,
    d.group_bytes,
    d.block_x,
    d.block_y,
    d.block_z,
    d.items_x,
    d.items_y,
    d.items_z,
    d.call_id
FROM json_dispatch AS d
LEFT JOIN json_process AS p ON p.part = d.part
