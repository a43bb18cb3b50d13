/*
title    = "Communication of ranks"
question = "How long does each device or process communicate, and how much of it is exposed?"
source   = """union of communication intervals, less the time in which no compute kernel runs; the
    same parts as step_breakdown"""
grain    = """device used by a rank, or process with collectives on the host; in the whole window,
    and in each iteration of it"""
needs    = ["collective"]
optional = ["device_timeline", "analysis_window", "window_op", "kernel_class", "job_member",
    "iteration"]
returns = [
    "by_iteration", "trace_id", "job", "rank", "process_id", "device_id", "iteration", "elapsed_ns",
    "collectives", "total_ns", "communication_ns", "overlapped_ns", "exposed_ns", "evidence",
    "measured_over",
]
[columns]
by_iteration = "true for the rows of single iterations"
job = "distributed job of the trace; NULL without a known rank"
rank = "rank in the job; NULL when unknown"
device_id = "device; NULL for collectives on the host"
iteration = "iteration; NULL for the whole window, and outside of iterations"
elapsed_ns = "length of the window or iteration on the device; NULL on the host"
collectives = "communication kernels launched in the window, or ranges on the host"
total_ns = "sum of their durations; concurrent ones count twice"
communication_ns = "time with at least one of them"
overlapped_ns = "communication during which a compute kernel runs; NULL on the host"
exposed_ns = "communication without a compute kernel; NULL on the host"
evidence = "kernel name: communication kernels are recognised by name; host range: gloo or NVTX"
measured_over = "steady state, all iterations or whole trace"
[advice]
missing = "needs collectives; {collectives}"
*/
WITH
setting AS (SELECT unnest([false, true]) AS by_iteration),
timeline AS (
    SELECT s.by_iteration, d.trace_id, d.process_id, d.device_id,
        CASE WHEN s.by_iteration THEN d.iteration END AS iteration,
        sum(d.duration_ns)::BIGINT AS elapsed_ns,
        coalesce(sum(d.duration_ns) FILTER (d.communication_active), 0)::BIGINT
            AS communication_ns,
        coalesce(sum(d.duration_ns) FILTER (d.activity = 'communication'), 0)::BIGINT AS exposed_ns
    FROM device_timeline d, setting s GROUP BY ALL
),
kernels AS (
    SELECT s.by_iteration, o.trace_id, coalesce(o.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id,
        CASE WHEN s.by_iteration THEN o.iteration END AS iteration,
        count(*) AS collectives, sum(o.duration_ns)::BIGINT AS total_ns
    FROM window_op o
    JOIN kernel_class c
        ON c.trace_id = o.trace_id AND c.name = o.name AND c.class = 'communication'
    CROSS JOIN setting s
    WHERE o.op_kind = 'kernel'
    GROUP BY ALL
),
on_device AS (
    SELECT t.by_iteration, t.trace_id, t.process_id, t.device_id, t.iteration, t.elapsed_ns,
        coalesce(k.collectives, 0) AS collectives, coalesce(k.total_ns, 0) AS total_ns,
        t.communication_ns, t.communication_ns - t.exposed_ns AS overlapped_ns, t.exposed_ns,
        'kernel name' AS evidence, w.measured_over
    FROM timeline t
    JOIN analysis_window w
        ON  w.trace_id = t.trace_id AND coalesce(w.process_id, -1) = t.process_id
        AND coalesce(w.device_id, -1) = t.device_id
    LEFT JOIN kernels k
        ON  k.by_iteration = t.by_iteration
        AND k.trace_id = t.trace_id AND k.process_id = t.process_id
        AND k.device_id = t.device_id AND k.iteration IS NOT DISTINCT FROM t.iteration
    WHERE t.trace_id IN (SELECT trace_id FROM collective WHERE source = 'kernel')
),
host_range AS (
    SELECT s.by_iteration, c.trace_id, coalesce(c.process_id, -1) AS process_id,
        CASE WHEN s.by_iteration THEN i.iteration END AS iteration, c.start_ns, c.end_ns
    FROM collective c
    CROSS JOIN setting s
    LEFT JOIN iteration i
        ON  i.trace_id = c.trace_id AND i.process_id IS NOT DISTINCT FROM c.process_id
        AND c.start_ns >= i.start_ns AND c.start_ns < i.end_ns
    WHERE c.source <> 'kernel'
),
-- Each range adds what lies after the end of all earlier ones.
added AS (
    SELECT *, greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) OVER (
        PARTITION BY by_iteration, trace_id, process_id, iteration ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns))) AS added_ns
    FROM host_range
),
on_host AS (
    SELECT by_iteration, trace_id, process_id, -1 AS device_id, iteration,
        NULL::BIGINT AS elapsed_ns,
        count(*) AS collectives, sum(end_ns - start_ns)::BIGINT AS total_ns,
        sum(added_ns)::BIGINT AS communication_ns, NULL::BIGINT AS overlapped_ns,
        NULL::BIGINT AS exposed_ns, 'host range' AS evidence, 'whole trace' AS measured_over
    FROM added GROUP BY by_iteration, trace_id, process_id, iteration
)
SELECT a.by_iteration, a.trace_id, m.job, m.rank, nullif(a.process_id, -1) AS process_id,
    nullif(a.device_id, -1) AS device_id, a.iteration, a.elapsed_ns, a.collectives, a.total_ns,
    a.communication_ns, a.overlapped_ns, a.exposed_ns, a.evidence, a.measured_over
FROM (FROM on_device UNION ALL FROM on_host) a
LEFT JOIN job_member m
    ON  m.trace_id = a.trace_id
    AND (m.process_id IS NULL OR m.process_id = a.process_id AND m.device_id = a.device_id)
