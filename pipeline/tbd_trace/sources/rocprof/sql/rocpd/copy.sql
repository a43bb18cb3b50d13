-- Copies between agents.
SELECT
    c.part,
    c.id,
    coalesce(c.pid, t.pid) AS pid,
    coalesce(c.tid, t.tid) AS tid,
    coalesce(c.stream_id, t.stream_id, c.queue_id, t.queue_id) AS stream_id,
    c.src_agent_id,
    c.dst_agent_id,
    coalesce(c.start, s.value) AS start_ns,
    coalesce(c."end", e.value) AS end_ns,
    c.size AS bytes,
    n.string AS operation,
    v.stack_id AS call_id
FROM raw_memory_copy AS c
LEFT JOIN raw_track AS t ON t.part = c.part AND t.id = c.track_id
LEFT JOIN raw_timestamp AS s ON s.part = c.part AND s.id = c.start_id
LEFT JOIN raw_timestamp AS e ON e.part = c.part AND e.id = c.end_id
LEFT JOIN raw_event AS v ON v.part = c.part AND v.id = c.event_id
LEFT JOIN raw_string AS n ON n.part = c.part AND n.id = c.name_id
