-- Types of generic events that are GPU metrics, and whether their raw times are trace times.
SELECT
    t.typeId AS type_id,
    bool_and(coalesce(TRY(s.data ->> 'TimeSource') = 'SessionNs', false)) AS session_clock
FROM GENERIC_EVENT_TYPES AS t
INNER JOIN GENERIC_EVENT_SOURCES AS s ON s.sourceId = t.sourceId
WHERE regexp_matches(TRY(s.data ->> 'Name'), '(?i)gpu ?metrics')
GROUP BY ALL
