/*
title    = "Causes of idle time"
question = "While the GPU was idle, what was the thread doing that launched its next work?"
source   = "gaps of the union of GPU work, cut where the launching thread changes what it does; disjoint, summing to the idle time"
grain    = "cause, per device used by a process"
needs    = ["gpu_op", "device_timeline"]
optional = ["op_scope", "api_call", "nvtx_meaning", "analysis_window", "process"]
[columns.trace_id]
doc = "the trace"
[columns.pid]
doc = "process; NULL when unknown"
[columns.device_id]
doc = "device; NULL when unknown"
[columns.cause]
doc = "synchronization, memory allocation, launch (in a launching or copying call), other CUDA call, data wait (in a data range, outside CUDA), host work (outside CUDA: Python, framework, data), launch latency (already launched, not yet running), unknown (no record of the launch)"
[columns.idle_ns]
unit = "ns"
doc = "idle time with this cause"
[columns.share_pct]
unit = "%"
doc = "idle_ns ÷ idle time of the device"
[columns.elapsed_pct]
unit = "%"
doc = "idle_ns ÷ length of the window"
[columns.gaps]
doc = "idle stretches in which the cause took part"
[columns.longest_ns]
unit = "ns"
doc = "longest uninterrupted stretch of the cause"
[columns.evidence]
doc = "estimated: what the launching thread did, not proof that it kept the GPU waiting"
[columns.measured_over]
doc = "stable iterations, all iterations or whole trace"
[plot]
kind = "barh"
x = "cause"
y = ["idle_ns"]
*/
WITH
operation AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        start_ns, thread_id, launch_end_ns
    FROM op_scope
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
        coalesce(n.thread_id, l.thread_id) AS thread_id, n.launch_end_ns
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
                PARTITION BY trace_id, process_id, thread_id ORDER BY start_ns, end_ns DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end_ns
        FROM api_call WHERE api = 'cuda'
    )
    WHERE earlier_end_ns IS NULL OR end_ns > earlier_end_ns
),
data_range AS (
    SELECT trace_id, process_id, thread_id, start_ns, end_ns FROM nvtx_meaning WHERE phase = 'data'
),
-- Where the launching thread may change what it does.
cut AS (
    SELECT gap_id, unnest([start_ns, end_ns, launch_end_ns]) AS at_ns FROM next_work
    UNION
    SELECT g.gap_id, unnest([c.start_ns, c.end_ns])
    FROM next_work g
    JOIN call c
        ON  c.trace_id = g.trace_id AND c.thread_id = g.thread_id
        AND c.process_id IS NOT DISTINCT FROM nullif(g.process_id, -1)
        AND c.start_ns < g.end_ns AND c.end_ns > g.start_ns
    UNION
    SELECT g.gap_id, unnest([d.start_ns, d.end_ns])
    FROM next_work g
    JOIN data_range d
        ON  d.trace_id = g.trace_id AND d.thread_id = g.thread_id
        AND d.process_id IS NOT DISTINCT FROM nullif(g.process_id, -1)
        AND d.start_ns < g.end_ns AND d.end_ns > g.start_ns
),
slice AS (
    SELECT g.*, c.at_ns AS slice_start_ns,
        lead(c.at_ns) OVER (PARTITION BY g.gap_id ORDER BY c.at_ns) AS slice_end_ns
    FROM next_work g JOIN cut c USING (gap_id)
    WHERE c.at_ns BETWEEN g.start_ns AND g.end_ns
),
caused AS (
    SELECT s.trace_id, s.process_id, s.device_id, s.gap_id,
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
SELECT c.trace_id, p.pid, nullif(c.device_id, -1) AS device_id, c.cause,
    sum(c.duration_ns)::BIGINT AS idle_ns,
    100.0 * sum(c.duration_ns) / sum(sum(c.duration_ns)) OVER (
        PARTITION BY c.trace_id, c.process_id, c.device_id) AS share_pct,
    100.0 * sum(c.duration_ns) / any_value(w.elapsed_ns) AS elapsed_pct,
    count(DISTINCT c.gap_id) AS gaps, max(c.duration_ns) AS longest_ns,
    'estimated' AS evidence, any_value(w.measured_over) AS measured_over
FROM caused c
JOIN analysis_window w
    ON  w.trace_id = c.trace_id AND coalesce(w.process_id, -1) = c.process_id
    AND coalesce(w.device_id, -1) = c.device_id
LEFT JOIN process p ON p.trace_id = c.trace_id AND p.process_id = c.process_id
GROUP BY c.trace_id, p.pid, c.process_id, c.device_id, c.cause
ORDER BY c.trace_id, p.pid, c.process_id, device_id, idle_ns DESC, c.cause
