/*
title    = "Causes of idle gaps"
question = "While the GPU was idle, what was the thread doing that launched the next operation?"
source   = """gaps in the union of GPU operations, split where the activity of the launching thread
    changes; the parts of a gap sum to its length"""
grain    = "gap in the operations of a device, and cause"
needs    = ["gpu_op", "device_timeline"]
optional = ["op_scope", "api_call", "annotation_semantics", "clock_check"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.device_id]
doc = "device; -1 when unknown"
[columns.gap_id]
doc = "number of the gap"
[columns.cause]
doc = "cause, as in idle_causes"
[columns.is_between]
doc = "true if the gap is between the last operation of an iteration and the first of the next"
[columns.duration_ns]
unit = "ns"
doc = "part of the gap with this cause"
[columns.longest_ns]
unit = "ns"
doc = "longest interval of the gap without another cause"
*/
-- Devices and threads are numbered, because sorting and joining numbers is faster than texts.
WITH
device_number AS MATERIALIZED (
    SELECT t.*, row_number() OVER (ORDER BY t.trace_id, t.process_id, t.device_id) AS device,
        coalesce(c.agrees, true) AS clocks_agree
    FROM (SELECT DISTINCT trace_id, process_id, device_id FROM device_timeline) t
    LEFT JOIN clock_check c
        ON  c.trace_id = t.trace_id AND coalesce(c.process_id, -1) = t.process_id
        AND coalesce(c.device_id, -1) = t.device_id
),
host_thread AS MATERIALIZED (
    SELECT *, row_number() OVER () AS host_thread
    FROM (
        SELECT DISTINCT trace_id, process_id, thread_id FROM op_scope WHERE thread_id IS NOT NULL
    )
),
-- If operations start together, the one launched first counts. If the clocks of GPU and host do not
-- agree, the activity of a thread in a gap is unknown.
operation AS MATERIALIZED (
    SELECT d.device, o.start_ns, h.host_thread, o.launch_end_ns
    FROM op_scope o
    JOIN device_number d
        ON  d.trace_id = o.trace_id AND d.process_id = coalesce(o.process_id, -1)
        AND d.device_id = coalesce(o.device_id, -1)
    LEFT JOIN host_thread h
        ON  h.trace_id = o.trace_id AND h.process_id IS NOT DISTINCT FROM o.process_id
        AND h.thread_id = o.thread_id AND d.clocks_agree
    QUALIFY row_number() OVER (
        PARTITION BY d.device, o.start_ns ORDER BY o.launch_end_ns, o.op_kind, o.op_id) = 1
),
-- Idle intervals; an iteration boundary inside an interval does not split it.
idle AS (
    SELECT device, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
        bool_or(is_between) AS is_between
    FROM (
        SELECT *, sum(starts_gap) OVER (
            PARTITION BY device ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS gap
        FROM (
            SELECT d.device, t.start_ns, t.end_ns, t.is_between,
                (lag(t.end_ns) OVER (PARTITION BY d.device ORDER BY t.start_ns)
                    IS DISTINCT FROM t.start_ns)::INTEGER AS starts_gap
            FROM device_timeline t JOIN device_number d USING (trace_id, process_id, device_id)
            WHERE t.activity = 'idle'
        )
    )
    GROUP BY device, gap
),
gap AS MATERIALIZED (
    SELECT i.*, row_number() OVER (ORDER BY i.device, i.start_ns) AS gap_id, n.launch_end_ns,
        CASE WHEN n.start_ns IS NULL THEN l.host_thread ELSE n.host_thread END AS host_thread
    FROM idle i
    ASOF LEFT JOIN operation n ON n.device = i.device AND i.end_ns <= n.start_ns
    -- After the last operation, the thread that launched that one.
    ASOF LEFT JOIN operation l ON l.device = i.device AND i.start_ns >= l.start_ns
),
-- The thread counts until its launch has returned; the rest of the gap is launch latency. On a busy
-- GPU, most gaps start after that and need no search.
awaited AS MATERIALIZED (
    SELECT gap_id, host_thread, start_ns, least(end_ns, launch_end_ns) AS end_ns
    FROM gap
    WHERE host_thread IS NOT NULL AND (launch_end_ns IS NULL OR launch_end_ns > start_ns)
),
call_cause AS MATERIALIZED (
    SELECT name,
        CASE
            WHEN regexp_matches(name, 'Synchronize|EventQuery|StreamQuery')
                OR regexp_matches(name, '^(cudaMemcpy|cuMemcpy)') AND NOT contains(name, 'Async')
                THEN 'synchronization'
            WHEN regexp_matches(name, 'Malloc|Alloc|Free|HostRegister|MemPool')
                THEN 'memory allocation'
            WHEN regexp_matches(name, 'Launch|Async') THEN 'launch'
            ELSE 'other CUDA call'
        END AS cause
    FROM (SELECT DISTINCT name FROM api_call WHERE api = 'cuda')
),
-- Driver calls inside runtime calls are part of them and dropped.
call AS MATERIALIZED (
    SELECT host_thread, start_ns, end_ns, cause
    FROM (
        SELECT h.host_thread, a.start_ns, a.end_ns, n.cause,
            max(a.end_ns) OVER (
                PARTITION BY h.host_thread ORDER BY a.start_ns, a.end_ns DESC, a.api_call_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end_ns
        FROM api_call a
        JOIN call_cause n ON n.name = a.name
        JOIN host_thread h
            ON  h.trace_id = a.trace_id AND h.process_id IS NOT DISTINCT FROM a.process_id
            AND h.thread_id = a.thread_id
        WHERE a.api = 'cuda'
    )
    WHERE earlier_end_ns IS NULL OR end_ns > earlier_end_ns
),
data_range AS MATERIALIZED (
    SELECT h.host_thread, m.start_ns, m.end_ns
    FROM annotation_semantics m
    JOIN host_thread h
        ON  h.trace_id = m.trace_id AND h.process_id IS NOT DISTINCT FROM m.process_id
        AND h.thread_id = m.thread_id
    WHERE m.phase = 'data'
    QUALIFY m.end_ns > coalesce(max(m.end_ns) OVER (
        PARTITION BY h.host_thread ORDER BY m.start_ns, m.end_ns DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), m.start_ns)
),
-- Calls and data ranges of a thread are numbered by start. The ones that touch a gap are
-- consecutive: from the last that started before the gap to the last that started in it.
activity AS MATERIALIZED (
    SELECT *, row_number() OVER (
        PARTITION BY host_thread, is_call ORDER BY start_ns, end_ns) AS position
    FROM (
        SELECT host_thread, start_ns, end_ns, true AS is_call FROM call
        UNION ALL
        SELECT host_thread, start_ns, end_ns, false FROM data_range
    )
),
last_activity AS MATERIALIZED (
    SELECT host_thread, is_call, start_ns, max(position) AS position FROM activity GROUP BY ALL
),
touched AS (
    SELECT g.gap_id, g.host_thread, g.is_call,
        unnest(generate_series(coalesce(b.position, 1), e.position)) AS position
    FROM (SELECT *, unnest([true, false]) AS is_call FROM awaited) g
    ASOF LEFT JOIN last_activity b
        ON b.host_thread = g.host_thread AND b.is_call = g.is_call AND g.start_ns >= b.start_ns
    ASOF JOIN last_activity e
        ON e.host_thread = g.host_thread AND e.is_call = g.is_call AND g.end_ns >= e.start_ns
),
-- Times at which the activity of the launching thread may change.
cut AS (
    SELECT gap_id, unnest([start_ns, end_ns]) AS at_ns FROM awaited
    UNION
    SELECT t.gap_id, unnest([a.start_ns, a.end_ns])
    FROM touched t
    JOIN activity a USING (host_thread, is_call, position)
),
slice AS (
    SELECT g.gap_id, g.host_thread, c.at_ns AS start_ns,
        lead(c.at_ns) OVER (PARTITION BY g.gap_id ORDER BY c.at_ns) AS end_ns
    FROM awaited g JOIN cut c USING (gap_id)
    WHERE c.at_ns BETWEEN g.start_ns AND g.end_ns
),
-- A CUDA call counts before a data range around it.
caused AS (
    SELECT s.gap_id, s.start_ns, s.end_ns - s.start_ns AS duration_ns,
        CASE
            WHEN c.end_ns > s.start_ns THEN c.cause
            WHEN d.end_ns > s.start_ns THEN 'data wait'
            ELSE 'host work'
        END AS cause
    FROM slice s
    ASOF LEFT JOIN call c ON c.host_thread = s.host_thread AND s.start_ns >= c.start_ns
    ASOF LEFT JOIN data_range d ON d.host_thread = s.host_thread AND s.start_ns >= d.start_ns
    WHERE s.end_ns > s.start_ns
),
-- Successive slices with the same cause form one interval.
stretch AS (
    SELECT gap_id, cause, sum(duration_ns) AS duration_ns
    FROM (
        SELECT *, sum(begins) OVER (
            PARTITION BY gap_id ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS stretch
        FROM (
            SELECT *, (lag(cause) OVER (PARTITION BY gap_id ORDER BY start_ns)
                IS DISTINCT FROM cause)::INTEGER AS begins
            FROM caused
        )
    )
    GROUP BY gap_id, cause, stretch
),
explained AS (
    SELECT gap_id, cause, sum(duration_ns)::BIGINT AS duration_ns,
        max(duration_ns)::BIGINT AS longest_ns
    FROM stretch GROUP BY gap_id, cause
    UNION ALL
    SELECT gap_id, 'launch latency', end_ns - greatest(start_ns, launch_end_ns) AS latency_ns,
        latency_ns
    FROM gap WHERE host_thread IS NOT NULL AND end_ns > launch_end_ns
    UNION ALL
    SELECT gap_id, 'unknown', end_ns - start_ns, end_ns - start_ns
    FROM gap WHERE host_thread IS NULL
)
SELECT d.trace_id, d.process_id, d.device_id, e.gap_id, e.cause, g.is_between, e.duration_ns,
    e.longest_ns
FROM explained e
JOIN gap g USING (gap_id)
JOIN device_number d USING (device)
