-- Executions of kernels. `call_id` is the id of the call that launched them; a grid counts
-- work-items.
SELECT
    d.part,
    d.id,
    coalesce(d.pid, t.pid) AS pid,
    coalesce(d.tid, t.tid) AS tid,
    coalesce(d.agent_id, t.agent_id) AS agent_id,
    d.kernel_id,
    coalesce(d.stream_id, t.stream_id, d.queue_id, t.queue_id) AS stream_id,
    coalesce(d.start, s.value) AS start_ns,
    coalesce(d."end", e.value) AS end_ns,
    d.private_segment_size AS private_bytes,
    d.group_segment_size AS group_bytes,
    d.workgroup_size_x AS block_x,
    d.workgroup_size_y AS block_y,
    d.workgroup_size_z AS block_z,
    d.grid_size_x AS items_x,
    d.grid_size_y AS items_y,
    d.grid_size_z AS items_z,
    v.stack_id AS call_id
FROM raw_kernel_dispatch AS d
LEFT JOIN raw_track AS t ON t.part = d.part AND t.id = d.track_id
LEFT JOIN raw_timestamp AS s ON s.part = d.part AND s.id = d.start_id
LEFT JOIN raw_timestamp AS e ON e.part = d.part AND e.id = d.end_id
LEFT JOIN raw_event AS v ON v.part = d.part AND v.id = d.event_id
