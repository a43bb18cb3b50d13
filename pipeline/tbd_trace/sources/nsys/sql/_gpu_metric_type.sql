-- Generic event types that contain GPU metrics. session_clock: raw times are already trace times.
SELECT
    t.typeId AS type_id,
    bool_and(coalesce(TRY(s.data ->> 'TimeSource') = 'SessionNs', false)) AS session_clock
FROM GENERIC_EVENT_TYPES AS t
INNER JOIN GENERIC_EVENT_SOURCES AS s ON s.sourceId = t.sourceId
WHERE regexp_matches(TRY(s.data ->> 'Name'), '(?i)gpu ?metrics')
GROUP BY ALL
