/*
title    = "Idle stretches"
question = "While the GPU was idle, what was the thread doing, moment by moment, that launched its next work?"
source   = "gaps of the union of GPU work, cut where the launching thread changes what it does; disjoint, summing to the idle time"
grain    = "an uninterrupted stretch of idle time with one cause"
needs    = ["gpu_op", "device_timeline"]
optional = ["op_scope", "api_call", "nvtx_meaning"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.device_id]
doc = "device; -1 when unknown"
[columns.gap_id]
doc = "number of the gap that the stretch is part of"
[columns.cause]
doc = "as in idle_causes"
[columns.duration_ns]
unit = "ns"
doc = "length"
*/
WITH
-- Of operations that begin together the one launched first.
operation AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        start_ns, thread_id, launch_end_ns
    FROM op_scope
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id, device_id, start_ns
        ORDER BY launch_end_ns, op_kind, op_id) = 1
),
-- Stretches of idle time; an iteration's boundary inside one does not cut it.
idle AS (
    SELECT trace_id, process_id, device_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT *, sum(starts_gap) OVER device AS gap
        FROM (
            SELECT *, CASE WHEN lag(end_ns) OVER device = start_ns THEN 0 ELSE 1 END AS starts_gap
            FROM device_timeline WHERE activity = 'idle'
            WINDOW device AS (PARTITION BY trace_id, process_id, device_id ORDER BY start_ns)
        )
        WINDOW device AS (PARTITION BY trace_id, process_id, device_id ORDER BY start_ns)
    )
    GROUP BY trace_id, process_id, device_id, gap
),
next_work AS (
    SELECT i.*, row_number() OVER (ORDER BY i.trace_id, i.process_id, i.device_id, i.start_ns) AS gap_id,
        CASE WHEN n.start_ns IS NULL THEN l.thread_id ELSE n.thread_id END AS thread_id, n.launch_end_ns
    FROM idle i
    ASOF LEFT JOIN operation n
        ON  n.trace_id = i.trace_id AND n.process_id = i.process_id AND n.device_id = i.device_id
        AND i.end_ns <= n.start_ns
    -- after the last work: the thread that launched that
    ASOF LEFT JOIN operation l
        ON  l.trace_id = i.trace_id AND l.process_id = i.process_id AND l.device_id = i.device_id
        AND i.start_ns >= l.start_ns
),
-- Driver calls inside runtime calls are part of them.
call AS (
    SELECT trace_id, process_id, thread_id, start_ns, end_ns,
        CASE
            WHEN regexp_matches(name, 'Synchronize|EventQuery|StreamQuery')
                OR regexp_matches(name, '^(cudaMemcpy|cuMemcpy)') AND NOT contains(name, 'Async')
                THEN 'synchronization'
            WHEN regexp_matches(name, 'Malloc|Alloc|Free|HostRegister|MemPool') THEN 'memory allocation'
            WHEN regexp_matches(name, 'Launch|Async') THEN 'launch'
            ELSE 'other CUDA call'
        END AS cause
    FROM (
        SELECT trace_id, process_id, thread_id, name, start_ns, end_ns,
            max(end_ns) OVER (
                PARTITION BY trace_id, process_id, thread_id ORDER BY start_ns, end_ns DESC, api_call_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end_ns
        FROM api_call WHERE api = 'cuda'
    )
    WHERE earlier_end_ns IS NULL OR end_ns > earlier_end_ns
),
data_range AS (
    SELECT trace_id, process_id, thread_id, start_ns, end_ns
    FROM nvtx_meaning WHERE phase = 'data'
    QUALIFY end_ns > coalesce(max(end_ns) OVER (
        PARTITION BY trace_id, process_id, thread_id ORDER BY start_ns, end_ns DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)
),
-- Calls and data ranges of a thread, numbered: those that touch a gap are a run from the last that
-- began before it to the last that began in it.
activity AS (
    SELECT *, row_number() OVER (
        PARTITION BY trace_id, process_id, thread_id, is_call ORDER BY start_ns, end_ns) AS position
    FROM (
        SELECT trace_id, coalesce(process_id, -1) AS process_id, thread_id, start_ns, end_ns, true AS is_call
        FROM call
        UNION ALL
        SELECT trace_id, coalesce(process_id, -1), thread_id, start_ns, end_ns, false FROM data_range
    )
),
last_activity AS (
    SELECT trace_id, process_id, thread_id, is_call, start_ns, max(position) AS position
    FROM activity GROUP BY ALL
),
asked AS (
    SELECT gap_id, trace_id, process_id, thread_id, start_ns, end_ns, unnest([true, false]) AS is_call
    FROM next_work
),
touched AS (
    SELECT g.gap_id, g.trace_id, g.process_id, g.thread_id, g.is_call,
        unnest(generate_series(coalesce(b.position, 1), e.position)) AS position
    FROM asked g
    ASOF LEFT JOIN last_activity b
        ON  b.trace_id = g.trace_id AND b.process_id = g.process_id AND b.thread_id = g.thread_id
        AND b.is_call = g.is_call AND g.start_ns >= b.start_ns
    ASOF JOIN last_activity e
        ON  e.trace_id = g.trace_id AND e.process_id = g.process_id AND e.thread_id = g.thread_id
        AND e.is_call = g.is_call AND g.end_ns >= e.start_ns
),
-- Where the launching thread may change what it does.
cut AS (
    SELECT gap_id, unnest([start_ns, end_ns, launch_end_ns]) AS at_ns FROM next_work
    UNION
    SELECT t.gap_id, unnest([a.start_ns, a.end_ns])
    FROM touched t
    JOIN activity a USING (trace_id, process_id, thread_id, is_call, position)
),
slice AS (
    SELECT g.*, c.at_ns AS slice_start_ns,
        lead(c.at_ns) OVER (PARTITION BY g.gap_id ORDER BY c.at_ns) AS slice_end_ns
    FROM next_work g JOIN cut c USING (gap_id)
    WHERE c.at_ns BETWEEN g.start_ns AND g.end_ns
),
caused AS (
    SELECT s.trace_id, s.process_id, s.device_id, s.gap_id, s.slice_start_ns,
        s.slice_end_ns - s.slice_start_ns AS duration_ns,
        CASE
            WHEN s.thread_id IS NULL THEN 'unknown'
            WHEN s.slice_start_ns >= s.launch_end_ns THEN 'launch latency'
            WHEN c.end_ns > s.slice_start_ns THEN c.cause
            WHEN d.end_ns > s.slice_start_ns THEN 'data wait'
            ELSE 'host work'
        END AS cause
    FROM slice s
    ASOF LEFT JOIN call c
        ON  c.trace_id = s.trace_id AND c.thread_id = s.thread_id
        AND c.process_id IS NOT DISTINCT FROM nullif(s.process_id, -1)
        AND s.slice_start_ns >= c.start_ns
    ASOF LEFT JOIN data_range d
        ON  d.trace_id = s.trace_id AND d.thread_id = s.thread_id
        AND d.process_id IS NOT DISTINCT FROM nullif(s.process_id, -1)
        AND s.slice_start_ns >= d.start_ns
    WHERE s.slice_end_ns > s.slice_start_ns
)
-- Slices of one cause that follow each other are one stretch.
SELECT trace_id, process_id, device_id, gap_id, cause, sum(duration_ns)::BIGINT AS duration_ns
FROM (
    SELECT *, sum(begins) OVER (PARTITION BY gap_id ORDER BY slice_start_ns) AS stretch
    FROM (
        SELECT *, (lag(cause) OVER (PARTITION BY gap_id ORDER BY slice_start_ns)
            IS DISTINCT FROM cause)::INTEGER AS begins
        FROM caused
    )
)
GROUP BY trace_id, process_id, device_id, gap_id, cause, stretch
