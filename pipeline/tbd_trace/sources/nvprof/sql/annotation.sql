-- NVTX ranges and marks. A mark has flag 1. The start of a range (flag 2) and its end (flag 4)
-- share
-- an id; the end has no name. A range without an end is open until the end of the recording.
--
-- CUPTI does not distinguish push/pop from start/end ranges. A pop always closes the last opened
-- range of its thread and domain. A closed range is therefore push_pop if the thread that opened it
-- also closed it, and all ranges opened inside it closed before it did; an open one if no range
-- around it was closed. All others are start_end. push_pop ranges of a thread and domain thus nest;
-- start/end ranges that happen to nest are counted as push_pop.
--
-- domain_id is the string number of the domain name; 0 is the default domain, as in NVTX.
WITH halves AS (
    SELECT
        *,
        if(objectKind IN (1, 2), object_process, NULL) AS process_id,
        if(objectKind = 2, object_thread, NULL) AS thread_id
    FROM CUPTI_ACTIVITY_KIND_MARKER
    WHERE flags & 6 <> 0 AND timestamp > 0
),

ends AS (
    SELECT process_id, id, min(timestamp) AS closed_ns, arg_min(thread_id, timestamp) AS thread_id
    FROM halves
    WHERE flags & 4 <> 0
    GROUP BY process_id, id
),

payloads AS (
    -- A record without a payload is all zero bits, so a payload of 0 looks the same as none.
    SELECT id, any_value(CASE payloadKind
        WHEN 0 THEN payload_double WHEN 1 THEN payload_unsigned WHEN 4 THEN payload_signed
    END) AS payload
    FROM CUPTI_ACTIVITY_KIND_MARKER_DATA
    WHERE payload_unsigned <> 0
    GROUP BY id
),

ranges AS (
    SELECT
        row_number() OVER (ORDER BY s._id_) AS annotation_id,
        s.timestamp AS start_ns,
        e.closed_ns,
        s.process_id,
        s.thread_id,
        e.thread_id AS end_thread_id,
        coalesce(s.domain, 0) AS domain_id,
        s.name,
        s.id
    FROM halves AS s
    LEFT JOIN ends AS e ON e.id = s.id AND e.process_id IS NOT DISTINCT FROM s.process_id
    WHERE s.flags & 2 <> 0
),

nesting AS (
    SELECT
        *,
        max(closed_ns) OVER (
            on_thread RANGE BETWEEN 1 FOLLOWING
            AND greatest(least(closed_ns, 4611686018427387904) - begin_ns - 1, 0) FOLLOWING
        ) AS inner_closed_ns,
        max(closed_ns) OVER (on_thread RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS outer_closed_ns
    -- 4611686018427387904 = 2^62: window frames must stay within 64 bits for any time in the file.
    FROM (SELECT *, least(start_ns, 4611686018427387904) AS begin_ns FROM ranges)
    WINDOW on_thread AS (PARTITION BY process_id, thread_id, domain_id ORDER BY begin_ns)
)

SELECT
    n.annotation_id,
    'nvtx' AS source,
    n.start_ns,
    coalesce(n.closed_ns, greatest(r.end_ns, n.start_ns)) AS end_ns,
    n.closed_ns IS NULL AS is_open,
    CASE
        WHEN n.thread_id IS NULL THEN 'start_end'
        WHEN n.closed_ns IS NULL AND coalesce(n.outer_closed_ns > n.start_ns, false)
            THEN 'start_end'
        WHEN n.closed_ns IS NULL THEN 'push_pop'
        WHEN n.end_thread_id IS DISTINCT FROM n.thread_id THEN 'start_end'
        WHEN coalesce(n.inner_closed_ns > n.closed_ns, false) THEN 'start_end'
        ELSE 'push_pop'
    END AS kind,
    n.process_id,
    n.thread_id,
    n.end_thread_id,
    n.domain_id,
    d.value AS domain,
    s.value AS text,
    p.payload
FROM nesting AS n
CROSS JOIN recording AS r
LEFT JOIN payloads AS p ON p.id = n.id
LEFT JOIN StringTable AS s ON s._id_ = n.name AND n.name <> 0
LEFT JOIN StringTable AS d ON d._id_ = n.domain_id AND n.domain_id <> 0
UNION ALL BY NAME
SELECT
    (SELECT count(*) FROM ranges) + row_number() OVER (ORDER BY m._id_) AS annotation_id,
    'nvtx' AS source,
    m.timestamp AS start_ns,
    m.timestamp AS end_ns,
    false AS is_open,
    'mark' AS kind,
    if(m.objectKind IN (1, 2), m.object_process, NULL) AS process_id,
    if(m.objectKind = 2, m.object_thread, NULL) AS thread_id,
    coalesce(m.domain, 0) AS domain_id,
    d.value AS domain,
    s.value AS text
FROM CUPTI_ACTIVITY_KIND_MARKER AS m
LEFT JOIN StringTable AS s ON s._id_ = m.name AND m.name <> 0
LEFT JOIN StringTable AS d ON d._id_ = m.domain AND m.domain <> 0
WHERE m.flags & 1 <> 0 AND m.timestamp > 0
