-- Kernels. Group memory of a dispatch is the sum of static and dynamic; a grid in work-items is
-- divided by the size of a workgroup, up, because the last workgroup can be partial.
SELECT
    row_number() OVER (ORDER BY d.part, d.id) AS kernel_id,
    nullif(d.start_ns, 0) AS start_ns,
    nullif(d.end_ns, 0) AS end_ns,
    TRY(nullif(d.end_ns, 0) - nullif(d.start_ns, 0)) AS duration_ns,
    key_of(d.part, coalesce(p.pid, d.pid)) AS process_id,
    coalesce(a.device_id, d.agent_id) AS device_id,
    d.stream_id,
    nullif(coalesce(l.parent_id, d.call_id), 0) AS correlation_id,
    coalesce(n.name, 'unnamed kernel') AS name,
    n.short_name,
    n.mangled_name,
    (d.items_x + d.block_x - 1) // nullif(d.block_x, 0) AS grid_x,
    (d.items_y + d.block_y - 1) // nullif(d.block_y, 0) AS grid_y,
    (d.items_z + d.block_z - 1) // nullif(d.block_z, 0) AS grid_z,
    d.block_x,
    d.block_y,
    d.block_z,
    nullif(s.registers, 0) AS registers_per_thread,
    s.group_bytes AS static_shared_bytes,
    CASE WHEN d.group_bytes >= s.group_bytes THEN d.group_bytes - s.group_bytes END
        AS dynamic_shared_bytes,
    d.private_bytes AS local_bytes_per_thread
FROM record_dispatch AS d
LEFT JOIN record_process AS p ON p.part = d.part AND p.id = d.pid
LEFT JOIN record_agent AS a ON a.part = d.part AND a.agent_id = d.agent_id
LEFT JOIN record_symbol AS s ON s.part = d.part AND s.kernel_id = d.kernel_id
LEFT JOIN kernel_name AS n ON n.part = d.part AND n.kernel_id = d.kernel_id
LEFT JOIN _launching AS l ON l.part = d.part AND l.pid = d.pid AND l.call_id = d.call_id
