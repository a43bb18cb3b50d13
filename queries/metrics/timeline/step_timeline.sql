/*
title    = "Timeline of a typical step"
question = "What do host threads and GPU streams do in a step, and why does it take so long?"
source   = """the step after the warm-up whose duration is closest to the median of all steps;
    causes of tbd-trace why, and calls and operations by kind"""
grain    = """time of one kind in a lane. The step has 500 parts; in each, the kind with the most
    time counts if the lane is busy for half of the part, or if a thread makes any call"""
needs    = ["step_window", "cause_interval"]
optional = ["host_chain", "gpu_chain", "input_wait", "kernel_group", "step_causes", "process",
    "thread"]
reduce   = "concat"
together = "job"
returns = ["trace_id", "pid", "step", "lane", "kind", "time_in_step_ns", "duration_ns", "step_ns"]
[columns]
step = "number of the step, from 0"
lane = "cause, thread or stream"
kind = """title of a cause in step_causes; of a thread also launch, copy call, other call,
    synchronization, memory allocation"""
time_in_step_ns = "start, from the begin of the step"
duration_ns = "duration"
step_ns = "duration of the step"
[plot]
kind   = "stacked_barh"
x      = "lane"
start  = "time_in_step_ns"
y      = ["duration_ns"]
series = "kind"
panels = ["trace_id", "pid"]
limit  = 4000
*/
WITH
timed AS (
    SELECT *, end_ns - start_ns AS step_ns,
        median(end_ns - start_ns) OVER (PARTITION BY trace_id, process_id) AS median_ns
    FROM step_window
),
typical AS (
    FROM timed
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_id ORDER BY abs(step_ns - median_ns), step) = 1
),
event AS (
    SELECT t.trace_id, t.process_id, 1 AS place, 0 AS number, 'cause of the step' AS lane,
        i.cause, NULL AS call, i.start_ns, i.end_ns
    FROM typical t
    JOIN cause_interval i USING (trace_id, process_id, device_id)
    WHERE i.start_ns < t.end_ns AND i.end_ns > t.start_ns
    UNION ALL
    SELECT t.trace_id, t.process_id, 2, h.thread_id,
        concat_ws(' ', coalesce(d.name, 'thread'), d.tid),
        NULL, CASE h.kind WHEN 'sync' THEN 'synchronization' WHEN 'alloc' THEN 'memory allocation'
            WHEN 'other' THEN 'other call' WHEN 'copy' THEN 'copy call' ELSE h.kind END,
        h.start_ns, h.end_ns
    FROM typical t
    JOIN host_chain h USING (trace_id, process_id)
    LEFT JOIN thread d ON d.trace_id = h.trace_id AND d.thread_id = h.thread_id
    WHERE h.start_ns < t.end_ns AND h.end_ns > t.start_ns AND h.kind <> 'step'
    UNION ALL
    SELECT t.trace_id, t.process_id, 2, h.thread_id,
        concat_ws(' ', coalesce(d.name, 'thread'), d.tid),
        'input_pipeline', NULL, w.start_ns, w.end_ns
    FROM typical t
    JOIN input_wait w USING (trace_id, process_id)
    JOIN host_chain h
        ON  h.trace_id = t.trace_id AND h.process_id = t.process_id AND h.position = w.position
    LEFT JOIN thread d ON d.trace_id = h.trace_id AND d.thread_id = h.thread_id
    WHERE w.start_ns < t.end_ns AND w.end_ns > t.start_ns
    UNION ALL
    SELECT t.trace_id, t.process_id, 3, g.stream_id,
        concat_ws(' ', 'GPU', g.device_id, 'stream', g.stream_id),
        coalesce(k.cause, if(g.op_kind = 'graph', 'gpu_other', 'copies')), NULL, g.start_ns,
        g.end_ns
    FROM typical t
    JOIN gpu_chain g USING (trace_id, process_id)
    LEFT JOIN kernel_group k
        ON k.trace_id = g.trace_id AND k.name = g.name AND g.op_kind = 'kernel'
    WHERE g.start_ns < t.end_ns AND g.end_ns > t.start_ns AND g.device_id = t.device_id
),
part AS (
    SELECT e.trace_id, e.process_id, e.place, e.number, e.lane, coalesce(c.title, e.call) AS kind,
        t.start_ns AS begin_ns, t.step_ns / 500 AS part_ns,
        unnest(range(
            greatest(0, floor((e.start_ns - t.start_ns) / part_ns))::BIGINT,
            least(500, ceil((e.end_ns - t.start_ns) / part_ns))::BIGINT)) AS part,
        greatest(e.start_ns - t.start_ns, part * part_ns) AS from_ns,
        least(e.end_ns - t.start_ns, (part + 1) * part_ns) AS until_ns
    FROM event e
    JOIN typical t USING (trace_id, process_id)
    LEFT JOIN step_causes c USING (cause)
),
filled AS (
    SELECT trace_id, process_id, place, number, lane, part, kind, part_ns,
        sum(until_ns - from_ns) AS ns
    FROM part
    GROUP BY trace_id, process_id, place, number, lane, part, kind, part_ns
    WINDOW bin AS (PARTITION BY trace_id, process_id, place, number, lane, part)
    QUALIFY (place = 2 OR sum(ns) OVER bin >= part_ns / 2)
        AND row_number() OVER (bin ORDER BY ns DESC, kind) = 1
),
numbered AS (
    -- Neighbours of one kind have the same difference.
    SELECT *, part - row_number() OVER (
        PARTITION BY trace_id, process_id, place, number, lane, kind ORDER BY part) AS run
    FROM filled
)
SELECT n.trace_id, p.pid, t.step, n.lane, n.kind,
    (min(n.part) * n.part_ns)::BIGINT AS time_in_step_ns,
    (count(*) * n.part_ns)::BIGINT AS duration_ns, t.step_ns
FROM numbered n
JOIN typical t USING (trace_id, process_id)
LEFT JOIN process p ON p.trace_id = n.trace_id AND p.process_id = n.process_id
GROUP BY n.trace_id, n.process_id, p.pid, t.step, t.step_ns, n.place, n.number, n.lane, n.kind,
    n.run, n.part_ns
ORDER BY n.trace_id, n.process_id, n.place, n.number, n.lane, time_in_step_ns
