/*
title    = "Overlap of communication"
question = "How much of the communication of each rank is hidden behind compute?"
source   = """union of communication intervals, less the time in which no compute kernel runs; the
    same parts as step_breakdown"""
grain    = """device used by a rank, or process with collectives on the host; with by=iteration,
    one iteration of it"""
needs    = ["collective"]
optional = ["device_timeline", "analysis_window", "window_op", "kernel_class", "job_member",
    "iteration", "process"]
reduce   = "sql:../../reduce/comm_overlap.sql"
[params.by]
doc = "trace: the whole analysis window; iteration: each iteration in the window"
choices = ["trace", "iteration"]
default = "trace"
[columns.trace_id]
doc = "the trace"
[columns.job]
doc = "distributed job of the trace; NULL without a known rank"
[columns.rank]
doc = "rank in the job; NULL when unknown"
[columns.pid]
doc = "process; NULL when unknown"
[columns.device_id]
doc = "device; NULL for collectives on the host"
[columns.iteration]
doc = "iteration; NULL for the whole window"
[columns.elapsed_ns]
unit = "ns"
doc = "length of the window or iteration on the device; NULL on the host"
[columns.collectives]
doc = "communication kernels launched in the window, or ranges on the host"
[columns.total_ns]
unit = "ns"
doc = "sum of their durations; concurrent ones count twice"
[columns.communication_ns]
unit = "ns"
doc = "time with at least one of them"
[columns.overlapped_ns]
unit = "ns"
doc = "communication during which a compute kernel runs; NULL on the host"
[columns.exposed_ns]
unit = "ns"
doc = "communication without a compute kernel; NULL on the host"
[columns.overlap_pct]
unit = "%"
doc = "overlapped ÷ communication; NULL without communication and on the host"
[columns.exposed_pct]
unit = "%"
doc = "exposed ÷ elapsed; NULL on the host"
[columns.evidence]
doc = "kernel name: communication kernels are recognised by name; host range: gloo or NVTX"
[columns.measured_over]
doc = "steady state, all iterations or whole trace"
[[plot]]
kind = "stacked_bar"
x = "iteration"
y = ["overlapped_ns", "exposed_ns"]
panels = ["trace_id", "device_id"]
[[plot]]
kind = "stacked_barh"
x = ["rank", "trace_id", "device_id"]
y = ["overlapped_ns", "exposed_ns"]
[[plot]]
kind = "barh"
x = ["rank", "trace_id"]
y = ["communication_ns"]
*/
WITH
setting AS (SELECT coalesce(getvariable('by'), 'trace') = 'iteration' AS by_iteration),
timeline AS (
    SELECT d.trace_id, d.process_id, d.device_id,
        CASE WHEN s.by_iteration THEN d.iteration END AS iteration,
        (max(d.end_ns) - min(d.start_ns))::BIGINT AS elapsed_ns,
        coalesce(sum(d.duration_ns) FILTER (d.communication_active), 0)::BIGINT
            AS communication_ns,
        coalesce(sum(d.duration_ns) FILTER (d.activity = 'communication'), 0)::BIGINT AS exposed_ns
    FROM device_timeline d, setting s GROUP BY ALL
),
kernels AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
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
    SELECT t.trace_id, t.process_id, t.device_id, t.iteration, t.elapsed_ns,
        coalesce(k.collectives, 0) AS collectives, coalesce(k.total_ns, 0) AS total_ns,
        t.communication_ns, t.communication_ns - t.exposed_ns AS overlapped_ns, t.exposed_ns,
        'kernel name' AS evidence, w.measured_over
    FROM timeline t
    JOIN analysis_window w
        ON  w.trace_id = t.trace_id AND coalesce(w.process_id, -1) = t.process_id
        AND coalesce(w.device_id, -1) = t.device_id
    LEFT JOIN kernels k
        ON  k.trace_id = t.trace_id AND k.process_id = t.process_id
        AND k.device_id = t.device_id AND k.iteration IS NOT DISTINCT FROM t.iteration
    WHERE t.trace_id IN (SELECT trace_id FROM collective WHERE source = 'kernel')
),
host_range AS (
    SELECT c.trace_id, coalesce(c.process_id, -1) AS process_id,
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
        PARTITION BY trace_id, process_id, iteration ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns))) AS added_ns
    FROM host_range
),
on_host AS (
    SELECT trace_id, process_id, -1 AS device_id, iteration, NULL::BIGINT AS elapsed_ns,
        count(*) AS collectives, sum(end_ns - start_ns)::BIGINT AS total_ns,
        sum(added_ns)::BIGINT AS communication_ns, NULL::BIGINT AS overlapped_ns,
        NULL::BIGINT AS exposed_ns, 'host range' AS evidence, 'whole trace' AS measured_over
    FROM added GROUP BY trace_id, process_id, iteration
)
SELECT a.trace_id, m.job, m.rank, p.pid, nullif(a.device_id, -1) AS device_id, a.iteration,
    a.elapsed_ns, a.collectives, a.total_ns, a.communication_ns, a.overlapped_ns, a.exposed_ns,
    100.0 * a.overlapped_ns / nullif(a.communication_ns, 0) AS overlap_pct,
    100.0 * a.exposed_ns / nullif(a.elapsed_ns, 0) AS exposed_pct,
    a.evidence, a.measured_over
FROM (FROM on_device UNION ALL FROM on_host) a
LEFT JOIN process p ON p.trace_id = a.trace_id AND p.process_id = a.process_id
LEFT JOIN job_member m
    ON  m.trace_id = a.trace_id
    AND (m.process_id IS NULL OR m.process_id = a.process_id AND m.device_id = a.device_id)
ORDER BY m.job, m.rank, a.trace_id, p.pid, a.process_id, a.device_id, a.iteration
