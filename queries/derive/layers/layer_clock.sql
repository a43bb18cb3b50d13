/*
title    = "Clock of the layers"
question = "Which clock measures the time of layers?"
grain    = "trace with layers or kernels in the window"
needs    = ["window_op", "analysis_window", "host_window", "layer_host_time"]
returns = ["trace_id", "clock", "has_gpu", "total_ns", "iterations", "measured_over"]
[params.clock]
doc = """clock of the layer times; auto: gpu if the trace has GPU work in the window, else host; gpu
    and host force one"""
choices = ["auto", "gpu", "host"]
default = "auto"
[columns]
clock = "gpu: kernel durations; host: exclusive time of the NVTX ranges of layers"
has_gpu = "true if there are kernels in the window"
total_ns = """total time on this clock: on the GPU, durations of the kernels in the window; on the
    host, lengths of the iterations in the window, for processes that mark layers"""
iterations = "iterations in the window, of the process with the most; NULL for the whole trace"
measured_over = """steady state, all iterations or whole trace; several joined by a comma if
    processes differ"""
[advice]
missing = """
needs kernels to time or layers: {timeline}, or, without a GPU, {layers}"""
*/
WITH
gpu AS (
    SELECT trace_id, sum(duration_ns)::BIGINT AS total_ns
    FROM window_op WHERE op_kind IN ('kernel', 'graph')
    GROUP BY ALL
),
program AS (
    SELECT w.trace_id, w.measured_over, sum(w.end_ns - w.start_ns) AS total_ns,
        nullif(count(w.iteration), 0) AS iterations
    FROM host_window w
    SEMI JOIN layer_host_time t
        ON t.trace_id = w.trace_id AND t.process_id IS NOT DISTINCT FROM w.process_id
    GROUP BY w.trace_id, w.process_id, w.measured_over
),
clocks AS (
    SELECT g.trace_id, 'gpu' AS clock, g.total_ns, max(w.iterations) AS iterations,
        string_agg(DISTINCT w.measured_over, ', ' ORDER BY w.measured_over) AS measured_over
    FROM gpu g JOIN analysis_window w USING (trace_id)
    GROUP BY g.trace_id, g.total_ns
    UNION ALL
    SELECT trace_id, 'host', sum(total_ns)::BIGINT, max(iterations),
        string_agg(DISTINCT measured_over, ', ' ORDER BY measured_over)
    FROM program GROUP BY trace_id
)
SELECT trace_id, clock, trace_id IN (SELECT trace_id FROM gpu) AS has_gpu, total_ns, iterations,
    measured_over
FROM clocks
WHERE getvariable('clock') IN ('auto', clock)
QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY clock) = 1
