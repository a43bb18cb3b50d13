-- Periodic GPU metrics: GPU_METRICS (one value per row) in newer exports, GENERIC_EVENTS (a JSON
-- object with all values per row) in older ones. Counters are unsigned 32-bit numbers, which newer
-- exports write as signed. Clocks are in Hz, even if the metric name says MHz.
SELECT
    s.timestamp_ns,
    -- The last byte of the global type id is the GPU number.
    CAST(s.type_id & 255 AS INTEGER) AS gpu_id,
    s.metric,
    CASE
        WHEN s.metric ILIKE '%frequency%' THEN 'Hz'
        WHEN regexp_matches(s.metric, '\[.*%.*\]$') THEN '%'
        WHEN s.metric LIKE '%[%]' THEN regexp_extract(s.metric, '\[([^\[]*)\]$', 1)
        WHEN regexp_matches(s.metric, '(?i)started|requests|go idle|switch|barriers') THEN 'count'
        WHEN
            regexp_matches(
                s.metric, '(?i)active|in flight|throughput|bandwidth|issue|(user|protocol) data'
                || '|hit rate|alloc'
            )
            THEN '%'
    END AS unit,
    CASE WHEN s.value < 0 THEN s.value + 4294967296 ELSE s.value END AS value
FROM (
    SELECT
        coalesce(g.timestamp, g.rawTimestamp) AS timestamp_ns,
        g.typeId AS type_id,
        coalesce(named.metric, 'metric ' || g.metricId, 'unknown') AS metric,
        g.value
    FROM GPU_METRICS AS g
    LEFT JOIN _metric_name AS named ON named.type_id = g.typeId AND named.metric_id = g.metricId
    UNION ALL
    SELECT
        e.timestamp_ns,
        e.type_id,
        e.entry.key AS metric,
        TRY_CAST(e.entry.value AS DOUBLE) AS value
    FROM (
        SELECT
            coalesce(
                raw.timestamp, CASE WHEN kind.session_clock THEN raw.rawTimestamp END
            ) AS timestamp_ns,
            raw.typeId AS type_id,
            unnest(map_entries(TRY(json_transform(raw.data, '"MAP(VARCHAR, VARCHAR)"')))) AS entry
        FROM GENERIC_EVENTS AS raw
        INNER JOIN _gpu_metric_type AS kind ON kind.type_id = raw.typeId
    ) AS e
) AS s
WHERE s.timestamp_ns IS NOT NULL
