-- Calls and ROCTX ranges of host threads: regions, and samples where they start and end at once.
SELECT
    r.part,
    r.id,
    coalesce(r.pid, t.pid) AS pid,
    coalesce(r.tid, t.tid) AS tid,
    coalesce(r.start, s.value) AS start_ns,
    coalesce(r."end", e.value) AS end_ns,
    upper(coalesce(g.name, c.string, '')) AS category,
    n.string AS operation,
    v.stack_id AS call_id,
    v.parent_stack_id AS parent_id,
    CASE WHEN json_valid(v.extdata) THEN v.extdata ->> '$.message' END AS message
FROM (
    SELECT * FROM raw_region
    UNION ALL
    SELECT * EXCLUDE ("timestamp", timestamp_id)
        REPLACE ("timestamp" AS start, "timestamp" AS "end", timestamp_id AS start_id,
            timestamp_id AS end_id)
    FROM raw_sample
) AS r
LEFT JOIN raw_track AS t ON t.part = r.part AND t.id = r.track_id
LEFT JOIN raw_timestamp AS s ON s.part = r.part AND s.id = r.start_id
LEFT JOIN raw_timestamp AS e ON e.part = r.part AND e.id = r.end_id
LEFT JOIN raw_event AS v ON v.part = r.part AND v.id = r.event_id
LEFT JOIN raw_info_category AS g ON g.part = r.part AND g.id = v.category_id
LEFT JOIN raw_string AS c ON c.part = r.part AND c.id = v.category_id
LEFT JOIN raw_string AS n ON n.part = r.part AND n.id = r.name_id
