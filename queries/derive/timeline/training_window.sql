/*
title    = "Training on each device"
question = "Did each device train in the analysis window, as some rules require?"
source   = "training is recognized by the capture, by marked phases or by kernel names"
grain    = """device used by a process, with at least a tenth of the kernel time of the busiest
    device"""
needs    = ["trace", "analysis_window", "window_op", "recording_actions"]
optional = ["iteration", "kernel_class", "process"]
[params.assume_training]
doc = "true: apply the rules to programs that are not known to train, too"
default = false
[columns]
trace_id = "the trace"
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
pid = "process; NULL when unknown"
label = "name of the device, such as GPU 0, with the process if several use GPUs"
measured_over = "steady state, all iterations or whole trace"
iterations = "iterations in the window; NULL for the whole trace"
span = "the window in words, such as 10 iterations of the steady state"
kernels = "kernels and graphs launched in the window"
start_ns = "start of the window on the device"
end_ns = "end of the window on the device"
method = "method that found the iterations (iteration); NULL without iterations"
training_evidence = """evidence of training: capture.json (it names an optimizer), nvtx or torch
    range (a backward or optimizer phase), kernel name (a kernel of a backward pass; kernels of
    optimizers do not count, because copies launch the same ones); NULL without evidence"""
trains = "true if the program is known or assumed to train"
why_not = "why rules for training do not apply; NULL if they apply"
advice = "how to make the rules applicable; NULL if they apply"
*/
WITH
busy AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, coalesce(device_id, -1) AS device_id,
        sum(duration_ns) AS ns, count(*) AS kernels
    FROM window_op WHERE op_kind IN ('kernel', 'graph')
    GROUP BY ALL
),
-- A device with less than 10 % of the kernel time, such as a second context, would always look
-- idle.
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
evidence_of AS (
    SELECT t.trace_id,
        CASE WHEN t.capture ->> '$.optimizer' IS NOT NULL THEN 'capture.json'
             WHEN p.trace_id IS NOT NULL
                 THEN CASE t.tool WHEN 'torch' THEN 'torch range' WHEN 'rocprof' THEN 'roctx'
                     ELSE 'nvtx' END
             WHEN n.trace_id IS NOT NULL THEN 'kernel name' END AS training_evidence,
        coalesce(a.action, 'mark the phases (phase:backward)') AS mark_phases
    FROM trace t
    LEFT JOIN recording_actions a ON a.tool = t.tool AND a.what = 'phases'
    LEFT JOIN phased p USING (trace_id)
    LEFT JOIN named n USING (trace_id)
),
recognition AS (
    SELECT trace_id, coalesce(process_id, -1) AS process_id, any_value(method) AS method
    FROM iteration GROUP BY ALL
),
windowed AS (
    SELECT u.trace_id, u.process_id, u.device_id, p.pid,
        concat_ws(' ', 'GPU', nullif(u.device_id, -1))
            || CASE WHEN count(DISTINCT u.process_id) OVER (PARTITION BY u.trace_id) > 1
                    THEN ' of process ' || coalesce(p.pid, u.process_id) ELSE '' END AS label,
        w.measured_over, w.iterations,
        w.iterations || CASE w.iterations WHEN 1 THEN ' iteration' ELSE ' iterations' END
            AS counted,
        CASE w.measured_over WHEN 'whole trace' THEN 'the whole trace'
             WHEN 'steady state' THEN counted || ' of the steady state'
             ELSE counted END AS span,
        u.kernels, w.start_ns, w.end_ns, f.method, t.training_evidence, t.mark_phases,
        t.training_evidence IS NOT NULL OR getvariable('assume_training')
            AS trains,
        CASE WHEN NOT trains
             THEN 'the program is not known to train: it has no range of a backward pass or an '
                 || 'optimizer and no backward kernel'
        END AS why_not
    FROM used u
    JOIN analysis_window w
        ON  w.trace_id = u.trace_id AND coalesce(w.process_id, -1) = u.process_id
        AND coalesce(w.device_id, -1) = u.device_id
    JOIN evidence_of t ON t.trace_id = u.trace_id
    LEFT JOIN recognition f ON f.trace_id = u.trace_id AND f.process_id = u.process_id
    LEFT JOIN process p ON p.trace_id = u.trace_id AND p.process_id = u.process_id
)
SELECT trace_id, process_id, device_id, pid, label, measured_over, iterations, span, kernels,
    start_ns,
    end_ns, method, training_evidence, trains, why_not,
    CASE WHEN NOT trains
         THEN 'if the program trains, ' || mark_phases
             || ', or collect with tbd-trace collect; use --set assume_training=true to apply '
             || 'the rules anyway'
    END AS advice
FROM windowed
