/*
title    = "Training on each device"
question = "Is what ran in the analysis window training, so that rules about training may judge it?"
source   = "Zhu et al. 2018: rules about training speak of stable iterations, three at least; whether iterations train is told by the capture, by NVTX phases or by names of kernels"
grain    = "one device used by a process that does a good part of the trace's work"
needs    = ["trace", "analysis_window", "window_op"]
optional = ["iteration", "kernel_class", "process"]
[params.assume_training]
doc = "true judges programs that nothing shows to be training, too"
default = false
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process; -1 when unknown"
[columns.device_id]
doc = "device; -1 when unknown"
[columns.pid]
doc = "process; NULL when unknown"
[columns.label]
doc = "how people call the device: GPU 0, with the process where several use GPUs"
[columns.measured_over]
doc = "stable iterations, all iterations or whole trace"
[columns.iterations]
doc = "iterations in the window; NULL for the whole trace"
[columns.span]
doc = "the window in words, such as 10 stable iterations"
[columns.start_ns]
unit = "ns"
doc = "start of the window on the device"
[columns.end_ns]
unit = "ns"
doc = "end of the window on the device"
[columns.method]
doc = "how iterations were found (iteration); NULL without iterations"
[columns.training_evidence]
doc = "what tells that the program trains: capture.json (it names an optimizer), nvtx (a backward or optimizer phase), kernel name (a kernel of a backward pass; what optimizers launch, copies launch as well); NULL when nothing does"
[columns.why_not]
doc = "why rules about training cannot judge this; NULL when they can"
[columns.advice]
doc = "what to do about that; NULL when they can"
*/
WITH
busy AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        sum(duration_ns) AS ns
    FROM window_op WHERE op_kind IN ('kernel', 'graph')
    GROUP BY ALL
),
-- A context on another GPU that hardly anything runs in would be idle by any measure.
used AS (
    SELECT * FROM busy
    QUALIFY ns >= 0.1 * max(ns) OVER (PARTITION BY trace_id)
),
phased AS (
    SELECT DISTINCT trace_id FROM window_op WHERE phase IN ('backward', 'optimizer')
),
named AS (
    SELECT DISTINCT o.trace_id
    FROM (SELECT DISTINCT trace_id, name FROM window_op WHERE op_kind = 'kernel') o
    JOIN kernel_class c USING (trace_id, name)
    WHERE starts_with(c.direction, 'backward')
),
told AS (
    SELECT t.trace_id,
        CASE WHEN t.capture ->> '$.optimizer' IS NOT NULL THEN 'capture.json'
             WHEN p.trace_id IS NOT NULL THEN 'nvtx'
             WHEN n.trace_id IS NOT NULL THEN 'kernel name' END AS training_evidence
    FROM trace t
    LEFT JOIN phased p USING (trace_id)
    LEFT JOIN named n USING (trace_id)
),
found AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, any_value(method) AS method
    FROM iteration GROUP BY ALL
),
windowed AS (
    SELECT u.trace_id, u.process_id, u.device_id, p.pid,
        concat_ws(' ', 'GPU', nullif(u.device_id, -1))
            || CASE WHEN count(DISTINCT u.process_id) OVER (PARTITION BY u.trace_id) > 1
                    THEN ' of process ' || coalesce(p.pid, u.process_id) ELSE '' END AS label,
        w.measured_over, w.iterations,
        CASE w.measured_over WHEN 'whole trace' THEN 'the whole trace'
             WHEN 'stable iterations' THEN w.iterations || ' stable iterations'
             ELSE w.iterations || ' iterations' END AS span,
        w.start_ns, w.end_ns, f.method, t.training_evidence,
        CASE
            WHEN w.iterations IS NULL THEN 'no iterations are known, and the rule is about training iterations'
            WHEN w.iterations < 3 THEN 'fewer than three iterations ran on this device'
            WHEN t.training_evidence IS NULL AND NOT coalesce(getvariable('assume_training'), false)
                THEN 'nothing tells that the iterations train: there is no range of a backward pass or an optimizer and no backward kernel'
        END AS why_not
    FROM used u
    JOIN analysis_window w
        ON  w.trace_id = u.trace_id AND coalesce(w.process_id, -1) = u.process_id
        AND coalesce(w.device_id, -1) = u.device_id
    JOIN told t ON t.trace_id = u.trace_id
    LEFT JOIN found f ON f.trace_id = u.trace_id AND f.process_id = u.process_id
    LEFT JOIN process p ON p.trace_id = u.trace_id AND p.process_id = u.process_id
)
SELECT trace_id, process_id, device_id, pid, label, measured_over, iterations, span, start_ns, end_ns,
    method, training_evidence, why_not,
    CASE
        WHEN why_not IS NULL THEN NULL
        WHEN iterations IS NULL
            THEN 'mark each training iteration with an NVTX range (iteration N), or name its ranges with --set iteration_pattern=REGEX'
        WHEN iterations < 3 THEN 'profile at least three iterations after warm-up, ten are better'
        ELSE 'for training, mark the phases with NVTX (phase:backward), or collect with tbd-trace collect; --set assume_training=true judges what does not train, too'
    END AS advice
FROM windowed
